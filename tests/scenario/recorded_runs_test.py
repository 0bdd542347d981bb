"""Runs of the simulator, recorded and judged by scripts/check_history.py, whatever its own oracle says.

    recorded_runs_test.py SCENARIO_TESTS [unittest's words]
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from check_history import History, faults  # noqa: E402

PROGRAM = None
ONE_SEED = "--gtest_filter=scenario.the_seed_of_the_environment_goes_well"
CLEAN_SEEDS = range(1, 11)
SEEDS_TRIED = 300
RUN_SECONDS = 15
"""Longest time of a run. Without the check of views nodes may send each other back and forth for ever."""


def recorded(seed, guards_off=""):
    """Runs this random cluster and returns its history; None when the run does not end. The program's exit code, which
    is the verdict of its own oracle, is ignored."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"PEERCACHE_SCENARIO_SEED": str(seed), "PEERCACHE_SCENARIO_HISTORY": folder,
                    "PEERCACHE_TEST_GUARDS_OFF": guards_off}
        try:
            subprocess.run([PROGRAM, ONE_SEED], env={**os.environ, **settings}, stdout=subprocess.DEVNULL, check=False,
                           timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        files = list(pathlib.Path(folder).iterdir())
        assert len(files) == 1, files
        with open(files[0], encoding="ascii") as lines:
            return History(lines)


class recorded_runs(unittest.TestCase):
    def test_are_good(self):
        for seed in CLEAN_SEEDS:
            history = recorded(seed)
            self.assertIsNotNone(history, f"seed {seed} does not end")
            self.assertEqual(list(faults(history)), [], seed)
            for kind in ("put", "hold", "drop", "hit", "ask", "view"):
                self.assertGreater(history.counts[kind], 0, f"seed {seed} recorded no {kind}")

    def expect_refused_without(self, guard, sentence):
        """Checks that without this guard some seed's history is refused with this sentence, and that the same seed's
        history is good with the guard."""
        for seed in range(1, SEEDS_TRIED + 1):
            history = recorded(seed, guard)
            if history is not None and any(sentence in fault for fault in faults(history)):
                print(f"[ measured ] without the guard {guard} the history of seed {seed} is the first that is refused")
                self.assertEqual(list(faults(recorded(seed))), [], seed)
                return
        self.fail(f"without the guard {guard} the histories of {SEEDS_TRIED} seeds are good")

    def test_without_the_check_of_views_go_back(self):
        self.expect_refused_without("view", "back in views")

    def test_without_the_generation_give_bytes_of_no_put(self):
        self.expect_refused_without("generation", "wrong hit")

    def test_without_the_incarnation_give_what_the_holder_never_had(self):
        self.expect_refused_without("incarnation", "never had version")

    def test_without_the_pin_give_bytes_of_two_fillings(self):
        self.expect_refused_without("pin", "its bytes are not those of version")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
