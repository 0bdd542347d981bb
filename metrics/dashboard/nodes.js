// The tables of nodes and of their traffic.

import { bytes, count, counted, dateTime, duration, percent, words } from "/format.js";
import { Table } from "/table.js";

/// An answer of a node that is older than this is shown as old.
const OLD_MS = 5000;

const nodes = new Table("nodes", ["Node", "State", "Role", "Version", "Data plane", "Pool", "Disk", "Hits", "Ring", "Evictions", "Up"]);
const traffic = new Table("traffic", ["Node", "Read", "Stored", "Hits from", "Misses", "From peers"]);

function stateOf(node, stale) {
  const word = node.state.split(":")[0];
  if (stale) return { text: `? unknown, was ${word}`, kind: "warn" };
  if (!node.reachable) return { text: `✕ ${word}`, kind: "bad", small: node.fault };
  if (!node.ready) return { text: `▲ unready`, kind: "bad", small: node.unready_reason };
  const small = node.fault_ids.join(", ");
  if (node.draining) return { text: "◆ draining", kind: "warn", small };
  return { text: "● ready", kind: small === "" ? "good" : "warn", small };
}

/// A number that its part of the node did not tell is null.
function roomOf(used, capacity, more) {
  if (capacity === null) return { text: "?" };
  return { text: `${bytes(used)} of ${bytes(capacity)}`, share: capacity === 0 ? 0 : used / capacity, small: more };
}

function diskOf({ disk, fault_ids: faults }) {
  if (disk.on === null) return { text: "?" };
  if (!disk.on) return faults.includes("disk-off") ? { text: "✕ off", kind: "bad", small: disk.why_off } : { text: "none" };
  const more = [`${counted(disk.pages, "page")}, queue ${bytes(disk.queue_bytes)}`];
  if (disk.read_only) more.push("read-only");
  if (disk.breaker !== "" && disk.breaker !== "closed") more.push(`breaker ${words(disk.breaker)}`);
  return roomOf(disk.bytes_used, disk.bytes_capacity, more.join(", "));
}

export function sum(counts) {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}

function hitsOf(node) {
  const hits = sum(node.hits);
  const all = hits + sum(node.misses);
  return all === 0 ? { text: "no gets" } : { text: percent(hits / all), share: hits / all, small: `of ${count(all)}` };
}

/// Address of the node's own page; under TLS by the node's name, because its certificate names no address.
function pageOf(node) {
  const address = location.protocol === "https:" ? node.name : node.host;
  const host = address.includes(":") ? `[${address}]` : address;
  return node.http_port === 0 ? "" : `${location.protocol}//${host}:${node.http_port}/`;
}

function nodeRow(node, asked, stale) {
  const name = { text: node.name, small: `${node.host}:${node.control_port}${node.name === asked ? ", shows this page" : ""}`, link: node.name === asked ? "" : pageOf(node) };
  const cells = [name, stateOf(node, stale), { text: node.role }];
  const known = node.age_ms !== undefined;
  const old = stale || !node.reachable || !known || node.age_ms > OLD_MS;
  if (!known) return { key: node.name, old, cells: [...cells, ...Array(8).fill({})] };
  const rings = node.ring_share === undefined ? { text: "owns none" } : { text: percent(node.ring_share), small: `${node.ring_to_mean.toFixed(2)} of the mean, ${counted(node.records, "record")}` };
  return {
    key: node.name,
    old,
    cells: [
      ...cells,
      { text: node.version },
      { text: node.data_plane, small: node.tls ? "TLS" : node.insecure ? "▲ open to the network, without TLS" : "" },
      roomOf(node.pool.bytes_used, node.pool.bytes_capacity, counted(node.pool.pages, "page")),
      diskOf(node),
      hitsOf(node),
      rings,
      { text: count(node.pool.evictions), small: node.disk.on ? `disk ${count(node.disk.evictions)}` : "" },
      { text: duration(node.uptime_ms), small: old ? `${duration(node.age_ms)} ago` : counted(node.sessions, "client") },
    ],
  };
}

function goneRow(node) {
  const cells = [{ text: node.name, small: `${node.host}:${node.control_port}` }, { text: "✕ gone", kind: "bad", small: `${node.why}, since ${dateTime(node.since_unix_ms)}` }];
  return { key: `gone ${node.name}`, old: true, cells: [...cells, ...Array(9).fill({})] };
}

function listOf(counts) {
  return Object.entries(counts).map(([name, value]) => `${words(name)} ${count(value)}`).join(", ");
}

function trafficRow(node, stale) {
  const peers = node.peers.map((peer) => `${peer.peer} ${bytes(peer.bytes)}${peer.errors > 0 ? `, ${count(peer.errors)} errors` : ""}`);
  const lanes = node.rails.map((rail) => `${rail.rail} ${bytes(rail.bytes)}`);
  if (node.tcp.bytes > 0) lanes.push(`TCP ${bytes(node.tcp.bytes)}`);
  return {
    key: node.name,
    old: stale || !node.reachable,
    cells: [
      { text: node.name },
      { text: bytes(node.bytes.get) },
      { text: bytes(node.bytes.set) },
      { text: listOf(node.hits) || "none" },
      { text: listOf(node.misses) || "none" },
      { text: peers.join(", ") || "none", small: lanes.join(", ") },
    ],
  };
}

export function showNodes(seen, stale) {
  nodes.show([...seen.nodes.map((node) => nodeRow(node, seen.asked, stale)), ...seen.gone.map(goneRow)]);
  traffic.show(seen.nodes.filter((node) => node.age_ms !== undefined).map((node) => trafficRow(node, stale)));
}
