"""Tests that what `peercache` prints as JSON fits docs/cli.schema.json, with two nodes with disks, one of which is
frozen in the end. PEERCACHE_TEST_CLI_PROGRAM and PEERCACHE_TEST_NODE_PROGRAM are the programs."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests/python"))
from local_nodes import Ring, until  # noqa: E402

try:
    import jsonschema
except ImportError:
    print("skipped: there is no jsonschema (Debian: python3-jsonschema)")
    sys.exit(77)

CLI = os.environ["PEERCACHE_TEST_CLI_PROGRAM"]
SCHEMA = json.loads((ROOT / "docs/cli.schema.json").read_text())
WITHOUT_JSON = {"help", "shard", "key", "disk", "ca", "ca issue", "config"}
"""Commands that need other commands behind them, or print the help."""


def faults(answer, schema):
    whole = {"$defs": SCHEMA["$defs"], **schema}
    return [f"{list(each.absolute_path)}: {each.message}"
            for each in jsonschema.Draft202012Validator(whole).iter_errors(answer)]


def named(name):
    return {"$ref": f"#/$defs/{name}"}


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="peercache-schemas-")
        at = pathlib.Path(cls.folder.name)
        cls.ring = Ring(at, 2, f"schemas-{os.getpid()}", flags_of=lambda name: [
            "--disk-path", str(at / f"disk-{name}"), "--disk-size", "128MiB", "--disk-bucket-size", "1MiB"])
        cls.node = cls.ring[0]
        assert until(lambda: cls.run_line("status")["members"] == 2)

    @classmethod
    def tearDownClass(cls):
        cls.ring[1].thaw()
        cls.ring.stop()
        cls.folder.cleanup()

    @classmethod
    def run_line(cls, *words):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PEERCACHE_")}
        patience = [] if "--timeout" in words else ["--timeout", "5s"]
        done = subprocess.run([CLI, *words, *patience, "-o", "json", "--node", cls.node.address, "--cluster",
                               cls.node.cluster], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean,
                              cwd=cls.folder.name, timeout=60)
        return json.loads(done.stdout)

    def fits(self, command, *words, schema=None):
        """Runs the command, and checks that its answer fits the command's schema, or `schema` if that is given."""
        answer = self.run_line(*command.split(), *words)
        self.assertEqual(faults(answer, schema or SCHEMA["commands"][command]), [], command)
        return answer

    def test_the_schema_is_one_and_refuses_what_it_does_not_know(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        answer = self.fits("status")
        self.assertTrue(faults({**answer, "more": 1}, SCHEMA["commands"]["status"]))
        answer.pop("faults")
        self.assertTrue(faults(answer, SCHEMA["commands"]["status"]))

    def test_every_command_has_a_schema(self):
        rows = re.findall(r"^\| `peercache ([a-z -]+)` \|", (ROOT / "docs/cli.md").read_text().split("##")[0],
                          re.MULTILINE)
        self.assertGreater(len(rows), 40)
        self.assertEqual(set(rows) - WITHOUT_JSON, set(SCHEMA["commands"]))

    def test_what_nodes_say(self):
        for command in ("status", "nodes", "events", "ring", "shard ls", "handoff", "sessions", "why", "slow", "hotkeys",
                        "bigkeys", "log-level"):
            self.fits(command)
        self.fits("ping", "-c", "2")
        self.fits("top", "--once")
        self.fits("shard show", "node-2")

    def test_pages(self):
        self.fits("put", "page", "--value", "hello")
        self.assertEqual(len(self.fits("key locate", "page")["keys"][0]["locations"]), 1)
        self.fits("key explain", "page")
        self.fits("key explain", "no such page")
        self.fits("get", "page", f"{self.folder.name}/page")
        self.fits("exists", "page", "no such page")
        self.fits("rm", "page", "no such page")
        self.fits("clear", "llama", "--yes")
        self.fits("clear", "llama", "--dry-run", schema=named("dry_run"))

    def test_disks_and_drains(self):
        self.fits("disk status")
        self.fits("disk verify", "node-1")
        self.fits("disk evict", "node-1", "--all", "--yes")
        self.fits("drain", "node-2")
        self.fits("undrain", "node-2")
        self.fits("forget", "nobody", schema=named("error"))

    def test_what_needs_no_node(self):
        for command in ("doctor", "config show", "config check", "config init", "cheat", "version"):
            self.fits(command)
        self.fits("completion", "bash")
        self.fits("config init", f"{self.folder.name}/node.toml")
        self.fits("ca init", f"{self.folder.name}/ca")
        self.fits("ca issue node", "host7", "--ca", f"{self.folder.name}/ca", "--out", self.folder.name)
        self.fits("ca issue client", "engine", "--ca", f"{self.folder.name}/ca", "--out", self.folder.name)
        self.fits("ca issue operator", "anna", "--ca", f"{self.folder.name}/ca", "--out", self.folder.name)
        self.fits("key explain", schema=named("error"))

    def test_a_demo(self):
        small = ("--nodes", "2", "--pool-size", "8MiB", "--requests", "20")
        self.assertNotIn("disk", self.fits("demo", *small))
        again = self.fits("demo", *small, "--disk-size", "128MiB", "--restart")
        self.assertEqual(again["restarted"]["wrong_bytes"], 0)
        self.fits("demo", "--trace", "/nowhere", schema=named("error"))

    def test_measurements(self):
        """All measuring commands print rows of one kind, so the few that take only seconds stand for the others."""
        self.assertEqual({json.dumps(schema) for name, schema in SCHEMA["commands"].items() if name.startswith("bench")},
                         {json.dumps(named("bench"))})
        few = ("--rounds", "1", "--calls", "5")
        keys = self.fits("bench", *few, "--memory", "128MiB", "--pool-size", "512MiB", "--only", "exists")["results"]
        self.assertTrue(keys and all("keys_per_second" in row for row in keys), keys)
        self.assertTrue(self.fits("bench handoff", *few, "--prompt-pages", "1", "--only", "handoff_page")["results"])
        if shutil.which("fio"):
            row = self.fits("bench disk", "--path", self.folder.name, "--rounds", "1", "--sizes", "64KiB", "--store", "offset",
                            "--only", "disk_write", "--round-bytes", "8MiB", "--size", "64MiB", "--memory", "8MiB")["results"][0]
            self.assertEqual(row["store"], "offset")
            self.assertTrue(faults({"results": [{**row, "more": 1}]}, named("bench")))

    def test_a_bundle(self):
        self.fits("bundle", "-", schema=named("bundle"))
        written = self.fits("bundle", f"{self.folder.name}/bundle.json")
        self.assertTrue(written["whole"])
        bundle = json.loads(pathlib.Path(written["path"]).read_text())
        self.assertEqual(faults(bundle, named("bundle")), [])
        self.assertNotIn(self.node.cluster, json.dumps(bundle))
        self.assertEqual({each["name"] for each in bundle["cluster"]["nodes"]}, {"node-1", "node-2"})

    def test_with_a_node_that_does_not_answer(self):
        self.ring[1].freeze()
        try:
            for command in ("status", "nodes", "events", "shard ls", "handoff", "sessions", "why", "slow", "hotkeys",
                            "bigkeys", "log-level"):
                self.fits(command)
            self.fits("top", "--once")
            self.fits("bundle", "-", schema=named("bundle"))
        finally:
            self.ring[1].thaw()


if __name__ == "__main__":
    unittest.main()
