"""Tests of Containerfile: its steps must be the scripts that make packages anywhere, and it must copy the files that
these need."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOADER = importlib.machinery.SourceFileLoader("try_containerfile", str(ROOT / "scripts/try-containerfile"))
trial = importlib.util.module_from_spec(importlib.util.spec_from_loader("try_containerfile", LOADER))
LOADER.exec_module(trial)
STAGES = trial.stages((ROOT / "Containerfile").read_text())


class Containerfile(unittest.TestCase):
    def test_what_is_installed_is_what_the_script_makes(self):
        runs = [rest for name, rest in STAGES["build"][1] if name == "RUN"]
        self.assertEqual(runs, ["scripts/install-deps --build", "scripts/package /dist"])

    def test_build_and_image_are_of_one_release(self):
        self.assertEqual(len({release for release, _ in STAGES.values()}), 1)

    def test_each_step_can_be_tried_without_containers(self):
        for name, (_, steps) in STAGES.items():
            done = subprocess.run(["bash", "-n", "-c", trial.script_of(name, steps)], stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_no_tracked_file_is_left_out_and_what_was_made_is(self):
        files = subprocess.run(["git", "-C", str(ROOT), "ls-files"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()
        self.assertEqual([name for name in files if trial.ignored(name, trial.patterns())], [])
        for made in ("build/release/cli/peercache", "build-x/a", "dist/a.whl", "python/peercache/__pycache__/a.pyc",
                     "tests/browser/node_modules/a/index.js"):
            self.assertTrue(trial.ignored(made, trial.patterns()), made)

    def test_a_copy_leaves_out_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            tree, target = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "target"
            for name in ("build/a", "dist/a", "docs/build/a", "python/__pycache__/a", "scripts/build-wheel", "README.md"):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_text("")
            target.mkdir()
            subprocess.run(["bash", "-c", trial.copy_of_tree(target).replace("/checkout", str(tree))], check=True)
            copied = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
            self.assertEqual(copied, {"docs/build/a", "scripts/build-wheel", "README.md"})


if __name__ == "__main__":
    unittest.main()
