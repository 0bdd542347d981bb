// Starts real nodes on loopback for tests of the web page, and runs the command line of the same build.

import { execFile, spawn } from "node:child_process";
import { mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const NODE = process.env.PEERCACHE_TEST_NODE_PROGRAM;
const CLI = process.env.PEERCACHE_TEST_CLI_PROGRAM;
const READY = /ready control=(\d+) data=(\d+) http=(\d+)/;

/// Waits until `condition` returns a true value, and returns this value; throws when it does not within `ms`.
export async function until(what, condition, ms = 30000) {
  const end = performance.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((next) => setTimeout(next, 50));
  }
}

export class LocalCluster {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "peercache-browser-"));
    this.name = `browser-${process.pid}`;
    this.nodes = [];
  }

  async start(name) {
    const words = ["--no-pool-keep", "--node-name", name, "--cluster-name", this.name, "--pool-size", "64MiB",
      "--pool-name-prefix", this.name, "--net-control-port", "0", "--net-data-port", "0", "--net-http-port", "0"];
    if (this.nodes.length > 0) words.push("--insecure-cluster", "--discovery-seeds", this.nodes.map((node) => `127.0.0.1:${node.control}`).join(","));
    if (name.endsWith("1")) words.push("--disk-path", join(this.folder, "disk"), "--disk-size", "64MiB", "--disk-bucket-size", "16MiB");
    const clean = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith("PEERCACHE_")));
    const log = openSync(join(this.folder, `${name}.log`), "a");
    const child = spawn(NODE, words, { stdio: ["ignore", "pipe", log], env: clean });
    const ports = await new Promise((resolve, reject) => {
      child.on("exit", (code) => reject(new Error(`${name} ended with ${code}: ${readFileSync(join(this.folder, `${name}.log`))}`)));
      createInterface({ input: child.stdout }).on("line", (line) => {
        const match = READY.exec(line);
        if (match) resolve(match);
      });
    });
    child.removeAllListeners("exit");
    child.on("exit", () => {});
    const node = { name, child, control: ports[1], url: `http://127.0.0.1:${ports[3]}/` };
    this.nodes.push(node);
    return node;
  }

  /// Runs `peercache` with these words for a node. Returns its output.
  cli(node, ...words) {
    const all = [...words, "--cluster", this.name, "--node", `127.0.0.1:${node.control}`];
    return new Promise((resolve, reject) => execFile(CLI, all, (fault, out, err) => (fault ? reject(new Error(`${words}: ${out}${err}`)) : resolve(out))));
  }

  /// Kills the nodes, and removes what killed nodes leave behind: their pools and their files.
  end() {
    for (const node of this.nodes) node.child.kill("SIGKILL");
    for (const file of readdirSync("/dev/shm"))
      if (file.startsWith(`${this.name}-`)) rmSync(join("/dev/shm", file));
    rmSync(this.folder, { recursive: true, force: true });
  }
}
