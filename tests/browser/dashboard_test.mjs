// Tests of the web page of three real nodes in a real browser. Run `npm ci --ignore-scripts` in this folder first.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { LocalCluster, until } from "./local_nodes.mjs";

const BROWSER = process.env.PEERCACHE_TEST_BROWSER ?? "/usr/bin/chromium";
const PACKAGES = join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "node_modules/.installed");
for (const needed of [BROWSER, PACKAGES])
  if (!existsSync(needed)) {
    console.log(`SKIPPED: there is no ${needed}; scripts/install-deps installs it`);
    process.exit(77);
  }
const { chromium } = await import("playwright-core");

const PICTURES = process.env.PEERCACHE_TEST_PICTURES ?? "pictures";
const GZIPPED_BYTES_MAX = 150 * 1024;
const FIRST_PAINT_MS_MAX = 1000;
const GONE_MS_MAX = 5000;

/// Tests that measure time are a run of their own (CMakeLists.txt), beside which no other test runs.
const TIMED = process.env.PEERCACHE_TEST_TIMED === "1";
const timed = (name, body) => TIMED && test(name, body);
const untimed = (name, body) => !TIMED && test(name, body);

const cluster = new LocalCluster();
let browser, first;

before(async () => {
  mkdirSync(PICTURES, { recursive: true });
  browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
  first = await cluster.start("node-1");
  await cluster.start("node-2");
  await cluster.start("node-3");
});

after(async () => {
  await browser?.close();
  cluster.end();
});

/// Opens a node's page, and records its requests and its errors.
async function open(node, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.complaints = [];
  page.asked = [];
  page.on("console", (line) => line.type() === "error" && page.complaints.push(line.text()));
  page.on("pageerror", (fault) => page.complaints.push(String(fault)));
  page.on("request", (request) => page.asked.push(request.url()));
  page.on("response", (response) => page.answers?.push(response));
  await page.goto(node.url);
  return page;
}

const states = (page) => page.$$eval("#nodes-body tr", (rows) => Object.fromEntries(rows.map((row) => [row.children[0].querySelector("a, span").textContent, row.children[1].textContent])));

async function until_all_are_ready(page) {
  await until("three ready nodes", async () => {
    const seen = Object.values(await states(page));
    return seen.length === 3 && seen.every((state) => state.includes("ready") && !state.includes("unready"));
  });
}

async function picture(page, name) {
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
}

/// Returns the faults of accessibility that axe calls serious or critical.
async function serious_faults(page) {
  await page.evaluate(readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8"));
  const found = await page.evaluate(() => axe.run());
  return found.violations.filter((fault) => ["serious", "critical"].includes(fault.impact)).map((fault) => `${fault.id}: ${fault.nodes.map((node) => node.html).join(" ")}`);
}

untimed("live data of three nodes, and pages that were put and read", async () => {
  const page = await open(first);
  await until_all_are_ready(page);
  assert.match(await page.textContent("#verdict"), /well/);
  assert.match(await page.textContent("#cluster"), new RegExp(cluster.name));
  await cluster.cli(first, "put", "greeting", join(process.cwd(), "package.json"));
  await cluster.cli(first, "get", "greeting", "/dev/null");
  await cluster.cli(cluster.nodes[1], "put", "from-afar", join(process.cwd(), "package.json"));
  await cluster.cli(first, "get", "from-afar", "/dev/null");
  await until("traffic by peer", async () => /node-2 \d+ B/.test(await page.textContent("#traffic-body")));
  assert.match(await page.textContent("#traffic-body"), /TCP \d+ B/);
  await until("the page in the pool", async () => /[1-9]\d* page/.test(await page.textContent("#nodes-body tr")));
  await picture(page, "wide");
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

untimed("the last hour, events, and a key that is looked up by the keyboard alone", async () => {
  const page = await open(first);
  await until_all_are_ready(page);
  await until("charts", async () => (await page.$$("figure canvas")).length === 7);
  await until("a step with the get", async () => /own host/.test(await page.textContent("figure")), 40000);
  const frames = await page.$$eval("figure", (all) => all.map((figure) => figure.clientWidth - figure.querySelector(".uplot").clientWidth));
  assert.ok(frames.every((room) => room >= 0), `charts within their frames: ${frames}`);
  await page.selectOption("#whose", "node-2");
  await until("the history of another node", async () => /nothing|0 B/.test(await page.textContent("figure:nth-of-type(3) .note")));
  assert.match(await page.textContent("#events"), /joined node-3/);
  // Checks that the command line shows the event, too.
  assert.match(await cluster.cli(first, "events"), /node-3 +joined/);
  const top = JSON.parse(await cluster.cli(first, "top", "--once", "-o", "json"));
  assert.deepEqual(top.nodes.map((node) => node.state), ["ready", "ready", "ready"]);
  assert.ok(top.nodes[0].rates.hit_share >= 0);
  await page.focus("#key");
  await page.keyboard.type("greeting");
  await page.keyboard.press("Enter");
  await until("the key's place", async () => /location: node-1, memory/.test(await page.textContent("#key-answer")));
  assert.match(await page.textContent("#key-answer"), /should be a hit/);
  assert.deepEqual(page.complaints, []);
  await page.context().close();
});

timed("nothing is asked of anybody but the node, and the page is small and quick", async () => {
  const page = await open(first);
  await until_all_are_ready(page);
  const foreign = page.asked.filter((url) => !url.startsWith(first.url));
  assert.deepEqual(foreign, []);
  const files = new Set(page.asked.filter((url) => !url.includes("/api/")));
  let bytes = 0;
  for (const url of files) {
    const raw = await fetch(url, { headers: { "Accept-Encoding": "gzip" } });
    assert.equal(raw.headers.get("content-encoding"), "gzip", url);
    bytes += Number(raw.headers.get("content-length"));
    assert.match(raw.headers.get("content-security-policy"), /default-src 'none'/);
    assert.doesNotMatch(raw.headers.get("content-security-policy"), /unsafe/);
  }
  assert.ok(files.size >= 6, [...files].join(" "));
  assert.ok(bytes < GZIPPED_BYTES_MAX, `${bytes} bytes`);
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  assert.ok(paint < FIRST_PAINT_MS_MAX, `first paint after ${paint} ms`);
  console.log(`# ${files.size} files, ${bytes} bytes gzipped, first paint after ${Math.round(paint)} ms`);
  await page.context().close();
});

const until_charts = (page) => until("charts", async () => (await page.$$("figure canvas")).length === 7);
const histories = (page) => page.asked.filter((url) => url.includes("/api/history")).length;

/// Holds the page's requests to this address. Returns `release`, which ends them by `end(route)`.
async function hold(page, address, end) {
  const held = [];
  await page.route(address, (route) => held.push(route));
  const release = async () => {
    const alive = held.filter((route) => route.request().failure() === null);
    const ended = alive.map((route) => Promise.race(["requestfinished", "requestfailed"].map((event) => page.waitForEvent(event, (request) => request === route.request()))));
    await Promise.all(alive.map(end));
    await Promise.all(ended);
    await page.evaluate(() => new Promise((next) => requestAnimationFrame(() => setTimeout(next))));
  };
  return { held, release };
}

untimed("windows that are resized ask for nothing more", async () => {
  const page = await open(first);
  await until_charts(page);
  const before = histories(page);
  await page.evaluate(() => { for (let i = 0; i < 20; ++i) dispatchEvent(new Event("resize")); });
  await until("the next question", () => histories(page) > before);
  await page.evaluate(() => null); // Waits until the requests that the page has made so far are recorded.
  assert.ok(histories(page) <= before + 2, `${histories(page) - before} questions`);
  await page.context().close();
});

untimed("a history stands under its own node alone, and nothing where there is none", async () => {
  const page = await open(first);
  await until_charts(page);
  const note = () => page.textContent("#history-note");
  const { held, release } = await hold(page, /history\?node=$/, (route) => route.fulfill({ status: 404, json: { error: "too late" } }));
  await until("a question about all nodes", () => held.length > 0);
  await page.selectOption("#whose", "node-2");
  await until("node-2's", async () => /step/.test(await note()) && !/slowest/.test(await note()));
  await release();
  assert.match(await note(), /step/);
  await page.route(/history\?node=node-3$/, (route) => route.fulfill({ status: 404, json: { error: "no such node" } }));
  await page.selectOption("#whose", "node-3");
  await until("the reason", async () => /no such node/.test(await note()));
  assert.equal(await page.isVisible("#charts"), false);
  await page.context().close();
});

untimed("a look-up that fails late leaves the answer to the next one", async () => {
  const page = await open(first);
  const { held, release } = await hold(page, /api\/key\?key=first/, (route) => route.abort());
  await page.fill("#key", "first");
  await page.press("#key", "Enter");
  await until("the first question", () => held.length > 0);
  await page.fill("#key", "greeting");
  await page.press("#key", "Enter");
  await until("the next answer", async () => /should be a hit/.test(await page.textContent("#key-answer")));
  await release();
  assert.match(await page.textContent("#key-answer"), /should be a hit/);
  await page.context().close();
});

timed("a page that nobody looks at is not called old, and is renewed when somebody does", async () => {
  const page = await open(first);
  await until_all_are_ready(page);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    const now = performance.now.bind(performance), set = window.setTimeout;
    performance.now = () => now() * 1000;
    window.turns = 0;
    window.setTimeout = (next, ms) => set(next, ms, ms === 1000 && ++window.turns);
  });
  await until("turns of a hidden page", () => page.evaluate(() => window.turns > 2));
  assert.match(await page.title(), /^✓/);
  const before = histories(page);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await until("the next question", () => histories(page) > before, 2000);
  await page.context().close();
});

untimed("under TLS other nodes' pages are named by their certificates", async () => {
  const context = await browser.newContext();
  await context.route("https://node-1/**", async (route) => {
    const answer = await fetch(new URL(new URL(route.request().url()).pathname + new URL(route.request().url()).search, first.url));
    await route.fulfill({ status: answer.status, contentType: answer.headers.get("content-type"), body: Buffer.from(await answer.arrayBuffer()) });
  });
  const page = await context.newPage();
  await page.goto("https://node-1/");
  await until_all_are_ready(page);
  const port = new URL(cluster.nodes[1].url).port;
  assert.equal(await page.getAttribute("#nodes-body tr:nth-child(2) a", "href"), `https://node-2:${port}/`);
  await context.close();
});

untimed("no serious fault of accessibility, light, dark and narrow", async () => {
  for (const [name, options] of Object.entries({
    light: {},
    dark: { colorScheme: "dark" },
    narrow: { viewport: { width: 380, height: 800 } },
  })) {
    const page = await open(first, options);
    await until_all_are_ready(page);
    await until("charts", async () => (await page.$$("figure canvas")).length === 7);
    assert.deepEqual(await serious_faults(page), [], name);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(wide, 0, `${name}: ${wide} px beyond the window`);
    await picture(page, name);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  }
});

timed("a killed node is shown as gone within five seconds, and a dead page says that it is old", async () => {
  const page = await open(first);
  await until_all_are_ready(page);
  const own = await open(cluster.nodes[2]);
  await until_all_are_ready(own);
  const killed = performance.now();
  cluster.nodes[2].child.kill("SIGKILL");
  await until("node-3 shown as gone", async () => /gone/.test((await states(page))["node-3"] ?? ""), 15000);
  const took = performance.now() - killed;
  assert.ok(took < GONE_MS_MAX, `shown after ${took} ms`);
  console.log(`# shown as gone after ${Math.round(took)} ms`);
  await until("the fault named", async () => /\[node-gone\]/.test(await page.textContent("#faults")));
  await picture(page, "gone");
  assert.deepEqual(page.complaints, []);
  await until("the dead node's own page says that it is old", async () => /does not answer/.test(await own.textContent("#state")));
  for (const [name, state] of Object.entries(await states(own))) assert.match(state, /unknown/, name);
  assert.doesNotMatch(await own.textContent("#verdict"), /well/);
  await picture(own, "dead");
});

untimed("the file of charts is the one that npm has", () => {
  const digest = (path) => createHash("sha256").update(readFileSync(new URL(path, import.meta.url))).digest("hex");
  for (const file of ["uPlot.iife.min.js", "uPlot.min.css"]) assert.equal(digest(`../../metrics/dashboard/vendor/${file}`), digest(`node_modules/uplot/dist/${file}`), file);
});
