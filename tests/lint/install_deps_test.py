"""Tests that scripts/install-deps asks for all packages, or with --build only for those that a build needs."""
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OF_TESTS = {"python3-torch", "chromium", "qemu-system-x86", "clang", "libgtest-dev", "doxygen", "mkdocs"}
OF_THE_BUILD = {"cmake", "g++", "ninja-build", "libcaf-dev", "librocksdb-dev", "libssl-dev", "python3-dev", "dpkg-dev"}
OF_ARM64 = {"g++-aarch64-linux-gnu", "mmdebstrap", "qemu-user-static"}
PROGRAMS = {"dpkg-query": "exit 1", "npm": "exit 1", "sudo": 'exec "$@"',
            "apt-get": '[ "$1" = update ] || printf "%s\\n" "$@" >"$(dirname "$0")/asked"'}


def run(*arguments):
    """Runs the script as if no package were installed. Returns its exit code, its output, and the packages that it asks
    apt for."""
    with tempfile.TemporaryDirectory() as folder:
        for name, body in PROGRAMS.items():
            path = pathlib.Path(folder) / name
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)
        done = subprocess.run([ROOT / "scripts/install-deps", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, check=False)
        asked = pathlib.Path(folder) / "asked"
        words = asked.read_text().split() if asked.exists() else []
        return done.returncode, done.stdout, {word for word in words if not word.startswith("-") and word != "install"}


class InstallDeps(unittest.TestCase):
    def packages(self, *arguments):
        code, output, asked = run(*arguments)
        if "only Debian 12 and 13" in output or "is for Debian 12" in output:
            self.skipTest("another release of Debian, or none")
        self.assertEqual(code, 0, output)
        return asked

    def test_the_build_needs_no_package_of_the_tests(self):
        build = self.packages("--build")
        self.assertEqual(OF_THE_BUILD - build, set())
        self.assertEqual(OF_TESTS & build, set())

    def test_all_are_those_of_the_build_and_of_the_tests(self):
        everything = self.packages()
        self.assertEqual(OF_TESTS - everything, set())
        self.assertEqual(self.packages("--build") - everything, set())

    def test_only_who_asks_for_arm64_gets_its_compiler(self):
        self.assertEqual(OF_ARM64 & self.packages(), set())
        self.assertEqual(self.packages("--build", "--arm64") - self.packages("--build") - OF_ARM64, {"ccache"})
        self.assertEqual(OF_ARM64 - self.packages("--arm64"), set())

    def test_another_word_is_refused(self):
        code, _, asked = run("--bild")
        self.assertEqual((code, asked), (2, set()))


if __name__ == "__main__":
    unittest.main()
