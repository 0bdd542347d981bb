"""`peercache bench hicache`: the simulator of the engine, short."""

import json
import os
import pathlib
import subprocess

CLI = pathlib.Path(os.environ.get("PEERCACHE_TEST_NODE_PROGRAM", "build/release/cli/peercache-node")).with_name("peercache")
NAMES = ["hicache_exists", "hicache_get", "hicache_get_other_host", "hicache_request_other_host", "hicache_set"]


def run(*words):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PEERCACHE_")}
    done = subprocess.run([CLI, "bench", "hicache", "--rounds", "1", "--calls", "1", "--model", "small", "-o", "json", *words],
                          text=True, stdout=subprocess.PIPE, timeout=100, env=environment, check=False)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)["results"]


def test_it_measures_each_kind_of_call_and_compares_every_byte():
    """Ranks that read a wrong byte end the run with an error."""
    rows = run("--ranks", "2", "--only", ",".join(NAMES))
    assert [row["name"] for row in rows] == NAMES
    for row in rows[1:]:
        assert row["page_bytes"] == 64 << 10 and row["batch"] == 128
        assert row["bytes_per_second"] > 0 and row["limit_bytes_per_second"] > 0
        assert row["p50_us"] <= row["p99_us"] and 0 <= row["gil_held"] < 1
    assert rows[0]["keys_per_second"] > 0
