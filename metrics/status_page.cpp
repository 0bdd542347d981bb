#include "metrics/status_page.hpp"

namespace peercache::metrics {

std::string_view status_page_html() noexcept {
  return R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>PeerCache</title>
<link rel="stylesheet" href="/status.css">
</head>
<body>
<header><h1>PeerCache</h1><p id="state" role="status">loading</p></header>
<main id="content"></main>
<footer><a href="/metrics">/metrics</a> <a href="/healthz">/healthz</a> <a href="/readyz">/readyz</a>
<a href="/status.json">/status.json</a></footer>
<script src="/status.js"></script>
</body>
</html>
)";
}

std::string_view status_page_css() noexcept {
  return R"(:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
header { display: flex; gap: 1rem; align-items: baseline; }
h1 { font-size: 1.4rem; margin: 0; }
h2 { font-size: 1.05rem; margin: 1.5rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8884; }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
footer { margin-top: 2rem; opacity: .8; }
)";
}

std::string_view status_page_script() noexcept {
  return R"("use strict";
const words = name => name.replaceAll("_", " ");

function cell(row, kind, value) {
  const made = document.createElement(kind);
  if (value !== null && typeof value === "object") made.append(tableOf(value));
  else made.textContent = typeof value === "number" ? value.toLocaleString("en") : String(value);
  row.append(made);
}

function listTable(items) {
  const table = document.createElement("table");
  const names = Object.keys(items[0]);
  const head = table.insertRow();
  for (const name of names) cell(head, "th", words(name));
  for (const item of items) {
    const row = table.insertRow();
    for (const name of names) cell(row, "td", item[name] ?? "");
  }
  return table;
}

function tableOf(value) {
  if (Array.isArray(value) && value.length > 0 && value[0] !== null && typeof value[0] === "object")
    return listTable(value);
  if (Array.isArray(value)) return document.createTextNode(value.join(", "));
  const table = document.createElement("table");
  for (const [name, entry] of Object.entries(value)) {
    const row = table.insertRow();
    cell(row, "th", words(name));
    cell(row, "td", entry);
  }
  return table;
}

function show(status) {
  const plain = {}, parts = [];
  for (const [name, value] of Object.entries(status)) {
    if (value === null || typeof value !== "object") { plain[name] = value; continue; }
    const title = document.createElement("h2");
    title.textContent = words(name);
    parts.push(title, tableOf(value));
  }
  document.getElementById("content").replaceChildren(tableOf(plain), ...parts);
}

async function refresh() {
  const state = document.getElementById("state");
  try {
    const answer = await fetch("/status.json", { cache: "no-store" });
    show(await answer.json());
    state.textContent = "as of " + new Date().toLocaleTimeString();
  } catch (problem) {
    state.textContent = "no answer from the node: " + problem.message;
  }
  setTimeout(refresh, 2000);
}
refresh();
)";
}

} // namespace peercache::metrics
