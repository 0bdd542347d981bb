"""Tests that scripts/in-debian accepts Debian releases by number and by name."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEBOOTSTRAP = '#!/bin/sh\necho "$@" >"$(dirname "$0")/arguments"\nexit 1\n'


def run(*arguments):
    """Runs scripts/in-debian where no tree exists yet, with a debootstrap that fails. Returns the script's exit code
    and debootstrap's arguments."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "debootstrap").write_text(DEBOOTSTRAP)
        (path / "debootstrap").chmod(0o755)
        done = subprocess.run([ROOT / "scripts/in-debian", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PEERCACHE_TREES": folder},
                              check=False)
        made = path / "arguments"
        return done.returncode, made.read_text().split() if made.exists() else []


class OtherRelease(unittest.TestCase):
    def release_made_for(self, *arguments):
        code, made = run(*arguments)
        self.assertEqual(code, 1)
        return made[-2]

    def test_a_number_is_the_release_of_that_number(self):
        self.assertEqual(self.release_made_for("12", "true"), "bookworm")
        self.assertEqual(self.release_made_for("13", "true"), "trixie")
        self.assertEqual(self.release_made_for("--with-deps", "13", "true"), "trixie")

    def test_a_name_is_itself(self):
        self.assertEqual(self.release_made_for("forky", "true"), "forky")

    def test_an_unknown_number_and_a_missing_command_are_refused(self):
        for arguments in [["11", "true"], ["13"], ["--with-deps", "13"]]:
            self.assertEqual(run(*arguments), (2, []), arguments)


if __name__ == "__main__":
    unittest.main()
