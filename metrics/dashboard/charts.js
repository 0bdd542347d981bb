// Charts of the last hour, of one node or of all.

import { bytes, counted, latency, percent, time, words } from "/format.js";
import { put } from "/table.js";

const EVERY_MS = 5000;
const HEIGHT = 190;
/// Dashes of the lines of a chart, by line: lines differ by dash as well as by colour, for readers who see no colours.
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [1, 4]];
const LIGHT = ["#0b5cad", "#a34700", "#11632f", "#7a2a8c", "#555b63", "#a3121f"];
const DARK = ["#7db7f5", "#f0a860", "#6fd08c", "#d09ae0", "#a7aeb6", "#ff9a9a"];

const dark = matchMedia("(prefers-color-scheme: dark)");
const whose = document.getElementById("whose");
const place = document.getElementById("charts");
const note = document.getElementById("history-note");
const charts = new Map();

const perSecond = (values, spans) => values.map((value, index) => (spans[index] > 0 ? (value * 1000) / spans[index] : null));
const orNothing = (values) => values.map((value) => (value === 0 ? null : value));

/// The hits from each source as a share of all pages that were asked for.
function hitRates(said) {
  const columns = [...Object.values(said.hits), ...Object.values(said.misses)];
  const asked = said.unix_ms.map((_, index) => columns.reduce((all, column) => all + column[index], 0));
  return Object.entries(said.hits)
    .filter(([, column]) => column.some((value) => value > 0))
    .map(([name, column]) => [words(name), column.map((value, index) => (asked[index] > 0 ? value / asked[index] : null))]);
}

const CHARTS = [
  { id: "hits", title: "Hit rate by source", form: percent, lines: hitRates, top: 1 },
  { id: "misses", title: "Misses a second by reason", form: (value) => value.toFixed(1), lines: (said) => Object.entries(said.misses).map(([name, column]) => [words(name), perSecond(column, said.span_ms)]) },
  { id: "bytes", title: "Throughput a second", form: bytes, lines: (said) => [["read", perSecond(said.get_bytes, said.span_ms)], ["stored", perSecond(said.set_bytes, said.span_ms)], ["sent", perSecond(said.sent_bytes, said.span_ms)]] },
  { id: "get", title: "Time of a get", form: latency, lines: (said) => Object.entries(said.get_ns).map(([name, column]) => [name, orNothing(column)]) },
  { id: "set", title: "Time of a set", form: latency, lines: (said) => Object.entries(said.set_ns).map(([name, column]) => [name, orNothing(column)]) },
  { id: "evictions", title: "Evictions a second", form: (value) => value.toFixed(1), lines: (said) => [["pool", perSecond(said.evictions, said.span_ms)], ["disk", perSecond(said.disk_evictions, said.span_ms)]] },
  { id: "pool", title: "Pool and disk queue", form: bytes, lines: (said) => [["pool used", said.pool_bytes], ["disk queue", said.disk_queue_bytes]] },
];

function options(chart, lines, width) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--soft"), line = style.getPropertyValue("--line");
  const colours = dark.matches ? DARK : LIGHT;
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  const form = (_, value) => (value === null || value === undefined ? "–" : chart.form(value));
  return {
    width,
    height: HEIGHT,
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, chart.top ?? (high > 0 ? high * 1.1 : 1)] } },
    axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => time(tick * 1000).slice(0, ticks[1] - ticks[0] < 60 ? 8 : 5)) }, { ...axis, size: 78, values: (_, ticks) => ticks.map(chart.form) }],
    series: [
      { value: (_, at) => (at === null ? "–" : time(at * 1000)) },
      ...lines.map(([name], index) => ({ label: name, stroke: colours[index % colours.length], width: 2, dash: DASHES[index % DASHES.length], value: form, spanGaps: false, points: { show: lines[index][1].length < 3 } })),
    ],
  };
}

function frameOf(chart) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  const summary = document.createElement("p");
  caption.textContent = chart.title;
  summary.className = "note";
  const plotted = document.createElement("div");
  figure.append(caption, summary, plotted);
  place.append(figure);
  return { figure, summary, place: plotted, plot: null, shape: "" };
}

/// The newest value of each line of the chart as text, for readers who cannot see the lines.
function summaryOf(chart, lines) {
  const parts = lines.map(([name, column]) => [name, column.at(-1)]).filter(([, value]) => value !== null && value !== undefined);
  return parts.length === 0 ? "nothing in the newest step" : `newest: ${parts.map(([name, value]) => `${name} ${chart.form(value)}`).join(", ")}`;
}

function draw(chart, said) {
  const frame = charts.get(chart.id);
  const lines = chart.lines(said);
  put(frame.summary, summaryOf(chart, lines));
  const shape = `${dark.matches} ${lines.map(([name]) => name).join()} ${said.unix_ms.length < 3}`;
  const width = Math.max(200, frame.place.clientWidth);
  const data = [said.unix_ms.map((ms) => ms / 1000), ...lines.map(([, column]) => column)];
  if (frame.plot === null || frame.shape !== shape) {
    frame.plot?.destroy();
    frame.plot = new window.uPlot(options(chart, lines, width), data, frame.place);
    frame.plot.ctx.canvas.setAttribute("role", "img");
    frame.plot.ctx.canvas.setAttribute("aria-label", `Chart: ${chart.title}`);
    frame.shape = shape;
    return;
  }
  frame.plot.setData(data);
  if (frame.plot.width !== width) frame.plot.setSize({ width, height: HEIGHT });
}

/// Names of the nodes for which the serving node has a history.
let told = new Set();

/// Fills the list of nodes to choose from with those of `all` that have a history, and the chosen one.
export function offerNodes(all) {
  const names = all.filter((name) => told.has(name) || name === whose.value);
  const known = [...whose.options].map((option) => option.value).filter((name) => name !== "");
  if (known.join("\n") === names.join("\n")) return;
  const chosen = whose.value;
  whose.replaceChildren(new Option("all nodes", ""), ...names.map((name) => new Option(name, name)));
  whose.value = names.includes(chosen) ? chosen : "";
  if (whose.value !== chosen) refreshCharts();
}

/// The answer that the charts show, and the name of the node it was asked for; null: the charts are hidden.
let drawn = null;

function show(asked, said) {
  drawn = { asked, said };
  place.hidden = false;
  // All frames are added before any chart is drawn, because the layout gives a frame its width only then.
  if (charts.size === 0) for (const chart of CHARTS) charts.set(chart.id, frameOf(chart));
  for (const chart of CHARTS) draw(chart, said);
}

function hide() {
  drawn = null;
  place.hidden = true;
}

function noteOf(asked, said) {
  const steps = said.unix_ms.length;
  if (steps === 0) return "The first step of ten seconds has not ended yet.";
  const step = `${counted(steps, "step")} of ${said.step_ms / 1000} s`;
  if (asked !== "") return step;
  const some = said.nodes.length < said.cluster_nodes ? ` of ${said.nodes.length} of ${said.cluster_nodes} nodes` : "";
  return `${step}${some}; times are those of the slowest node`;
}

async function ask() {
  const asked = whose.value;
  if (drawn !== null && drawn.asked !== asked) {
    hide();
    put(note, "asking …");
  }
  const answer = await fetch(`/api/history?node=${encodeURIComponent(asked)}`, { cache: "no-store", signal: AbortSignal.timeout(3000) });
  const said = await answer.json();
  if (asked !== whose.value || answer.status === 202) return false;
  if (answer.ok) told = new Set(said.nodes);
  put(note, answer.ok ? noteOf(asked, said) : said.error);
  if (answer.ok && said.unix_ms.length > 0) show(asked, said);
  else hide();
  return true;
}

let timer = 0, turns = 0;

export async function refreshCharts() {
  const turn = ++turns;
  clearTimeout(timer);
  let known = false;
  try {
    known = document.hidden || (await ask());
  } catch {
    known = true; // The page's head says that the node does not answer.
  }
  if (turn === turns) timer = setTimeout(refreshCharts, known ? EVERY_MS : 500);
}

/// Draws the last answer again, in the window's new width or colours.
function redraw() {
  if (drawn !== null) for (const chart of CHARTS) draw(chart, drawn.said);
}

whose.addEventListener("change", refreshCharts);
dark.addEventListener("change", redraw);
addEventListener("resize", redraw);
