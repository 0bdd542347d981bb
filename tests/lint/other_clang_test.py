"""Tests that scripts/format and scripts/tidy check nothing with another version of clang than the one that they
require."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_LOOKED_AT = 77
PROGRAM = '#!/bin/sh\n[ "$1" = --version ] && echo "Debian clang version %s" && exit\ntouch "$(dirname "$0")/called"\n'


def run(tool, version, *command):
    """Runs a script with a fake tool of this version. Returns the script's exit code, and whether it ran the tool on a
    file."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / f"{tool}-14"
        program.write_text(PROGRAM % version)
        program.chmod(0o755)
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                                                      "XDG_CACHE_HOME": folder},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, (program.parent / "called").exists(), done.stdout


class OtherClang(unittest.TestCase):
    def test_the_formatter_of_another_release_changes_nothing(self):
        code, called, said = run("clang-format", "19.1.7", "scripts/format")
        self.assertEqual((code, called), (NOT_LOOKED_AT, False))
        self.assertIn("clang-format 14 is needed", said)

    def test_the_formatter_of_debian_12_is_called(self):
        code, called, _ = run("clang-format", "14.0.6", "scripts/format", "--check")
        self.assertEqual((code, called), (0, True))

    def test_clang_tidy_of_another_release_looks_at_nothing(self):
        code, called, said = run("clang-tidy", "19.1.7", sys.executable, "-B", "scripts/tidy", "/nowhere")
        self.assertEqual((code, called), (NOT_LOOKED_AT, False))
        self.assertIn("clang-tidy 14 is needed", said)


if __name__ == "__main__":
    unittest.main()
