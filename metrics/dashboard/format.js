// Numbers for people.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    ++unit;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(value < 10 ? 2 : 1)} ${UNITS[unit]}`;
}

/// "12,031", or "?" of a number that is not known.
export function count(value) {
  return value === null ? "?" : Math.round(value).toLocaleString("en");
}

/// "1 page", "12,031 pages".
export function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}

export function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

export function latency(ns) {
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e9).toFixed(2)} s`;
}

export function time(unixMs) {
  return new Date(unixMs).toLocaleTimeString("en-GB");
}

export function dateTime(unixMs) {
  return new Date(unixMs).toISOString().slice(0, 19).replace("T", " ") + " UTC";
}

export function words(name) {
  return name.replaceAll("_", " ");
}
