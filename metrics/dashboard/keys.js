// The look-up of one key.

import { bytes } from "/format.js";

const ASK_EVERY_MS = 250, ASKS_MAX = 16;
const answer = document.getElementById("key-answer");
let asked = 0;

function queryOf(form) {
  const query = new URLSearchParams();
  query.append(form.digest.checked ? "digest" : "key", form.key.value);
  for (const field of form.namespace.value.split(",")) if (field !== "") query.append("namespace", field);
  return query;
}

function listOf(lines) {
  const list = document.createElement("ul");
  for (const text of lines) {
    const line = document.createElement("li");
    line.textContent = text;
    list.append(line);
  }
  return list;
}

function show(said) {
  const verdict = document.createElement("strong");
  verdict.textContent = said.verdict;
  const digest = document.createElement("p");
  digest.textContent = `Digest ${said.digest}`;
  const owners = said.owners.map((owner) => `owner ${owner.node}: ${owner.fault === "" ? `knows ${owner.locations} ${owner.locations === 1 ? "location" : "locations"}` : owner.fault}`);
  const places = said.locations.map((place) => `location: ${place.node}${place.holder_in_view ? "" : " (not in the view)"}, ${place.tier}, ${bytes(place.length_bytes)}, slot ${place.slot}, generation ${place.generation}`);
  answer.replaceChildren(verdict, digest, listOf([...owners, ...places]));
}

async function ask(query, turn) {
  for (let i = 0; i < ASKS_MAX && turn === asked; ++i) {
    const said = await fetch(`/api/key?${query}`, { cache: "no-store", signal: AbortSignal.timeout(3000) });
    const json = await said.json();
    if (turn !== asked) return;
    if (said.status === 200) return show(json);
    answer.textContent = json.error;
    if (said.status !== 202) return;
    await new Promise((next) => setTimeout(next, ASK_EVERY_MS));
  }
}

async function lookUp(query) {
  const turn = ++asked;
  answer.textContent = "asking the owners of the key …";
  try {
    await ask(query, turn);
  } catch (fault) {
    if (turn === asked) answer.textContent = `no answer: ${fault.message}`;
  }
}

document.getElementById("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  lookUp(queryOf(event.target.elements));
});
