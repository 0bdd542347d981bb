// The page of a cluster, renewed each second from the node that serves it.

import { offerNodes, refreshCharts } from "/charts.js";
import { refreshEvents } from "/events.js";
import { time } from "/format.js";
import "/keys.js";
import { showNodes } from "/nodes.js";
import { put } from "/table.js";

const EVERY_MS = 1000;
/// Age in milliseconds of the last answer above which the page is marked as old.
const STALE_MS = 4000;

let seen = null;
let seenAt = -Infinity;

const element = (id) => document.getElementById(id);

function showFaults(stale) {
  const verdict = element("verdict");
  const faults = seen.faults;
  put(verdict, stale ? "? not known: the node that serves this page does not answer" : faults.length === 0 ? "✓ well" : `✕ ${faults.length} ${faults.length === 1 ? "fault" : "faults"}`);
  verdict.className = stale ? "warn" : faults.length === 0 ? "good" : "bad";
  const shown = JSON.stringify(faults);
  if (element("faults").dataset.shown === shown) return;
  element("faults").dataset.shown = shown;
  element("faults").replaceChildren(...faults.map((fault) => {
    const line = document.createElement("li");
    const id = document.createElement("code");
    id.textContent = ` [${fault.id}]`;
    line.append(fault.text, id);
    return line;
  }));
}

function show(problem) {
  const stale = performance.now() - seenAt > STALE_MS;
  document.body.classList.toggle("stale", stale && seen !== null);
  if (seen === null) {
    put(element("state"), problem === "" ? "asking the node …" : problem);
    return;
  }
  put(element("cluster"), seen.cluster);
  document.title = `${stale ? "?" : seen.faults.length === 0 ? "✓" : "✕"} ${seen.cluster} · PeerCache`;
  put(element("state"), stale ? `${seen.asked} does not answer since ${time(seen.unix_ms)} (${problem}); what is below is old` : `as ${seen.asked} sees it at ${time(seen.unix_ms)}, view ${seen.term}.${seen.version}${seen.fragment ? ", a fragment" : ""}`);
  showFaults(stale);
  showNodes(seen, stale);
  offerNodes(seen.nodes.map((node) => node.name));
}

async function ask() {
  const answer = await fetch("/api/cluster", { cache: "no-store", signal: AbortSignal.timeout(3000) });
  const said = await answer.json();
  if (answer.status !== 200) return said.error;
  seen = said;
  seenAt = performance.now();
  return "";
}

let timer = 0, turns = 0;

/// Asks the node and shows its answer. While the page is hidden it asks nothing, but for the first answer.
async function refresh() {
  const turn = ++turns;
  clearTimeout(timer);
  let problem = "";
  const asks = !document.hidden || seen === null;
  if (asks)
    try {
      problem = await ask();
    } catch (fault) {
      problem = fault.name === "TimeoutError" ? "no answer in time" : fault.message;
    }
  if (turn !== turns) return;
  if (asks) show(problem);
  timer = setTimeout(refresh, EVERY_MS);
}

function refreshAll() {
  refresh();
  refreshCharts();
  refreshEvents();
}

document.addEventListener("visibilitychange", () => document.hidden || refreshAll());
refreshAll();
