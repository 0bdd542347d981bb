// What happened: joins, leaves, incidents; the newest first.

import { dateTime } from "/format.js";

const EVERY_MS = 2000;
const SHOWN_MAX = 100;
const list = document.getElementById("events");

function lineOf(event) {
  const line = document.createElement("li");
  const when = document.createElement("time");
  const what = document.createElement("strong");
  when.dateTime = new Date(event.unix_ms).toISOString();
  when.textContent = dateTime(event.unix_ms);
  what.textContent = event.over ? `over: ${event.kind}` : event.kind;
  line.append(when, what, ` ${event.node}: ${event.text}`);
  return line;
}

async function ask() {
  const answer = await fetch("/api/events", { cache: "no-store", signal: AbortSignal.timeout(3000) });
  if (answer.status !== 200) return false;
  const events = (await answer.json()).events.slice(0, SHOWN_MAX);
  const shown = JSON.stringify(events);
  if (list.dataset.shown === shown) return true;
  list.dataset.shown = shown;
  list.replaceChildren(...events.map(lineOf));
  // A list that scrolls must be reached by the keyboard.
  if (list.scrollHeight > list.clientHeight) list.tabIndex = 0;
  else list.removeAttribute("tabindex");
  return true;
}

let timer = 0, turns = 0;

export async function refreshEvents() {
  const turn = ++turns;
  clearTimeout(timer);
  let known = false;
  try {
    known = document.hidden || (await ask());
  } catch {
    known = true; // The page's head says that the node does not answer.
  }
  if (turn === turns) timer = setTimeout(refreshEvents, known ? EVERY_MS : 500);
}
