"""Tests of what a release says of itself: its version, its changes, and what is inside."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def version():
    return re.search(r"^project\(peercache VERSION ([0-9.]+) ", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]


class Release(unittest.TestCase):
    def test_the_changelog_tells_of_this_version_first(self):
        sections = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
        released = [section for section in sections if section != "Unreleased"]
        self.assertEqual(released[0], version())

    def test_the_version_stands_in_one_place(self):
        files = subprocess.run(["git", "-C", str(ROOT), "grep", "-lF", f"VERSION {version()}"], stdout=subprocess.PIPE, text=True,
                               check=False).stdout.split()
        self.assertLessEqual(set(files), {"CMakeLists.txt"})

    def test_the_sbom_names_each_library_by_package_and_version(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "sbom.json"
            done = subprocess.run([sys.executable, "-B", str(ROOT / "scripts/sbom.py"), "1.2.3", str(out), "/bin/bash"],
                                  env={**os.environ, "SOURCE_DATE_EPOCH": "86400"}, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0 and not pathlib.Path("/var/lib/dpkg/status").exists():
                self.skipTest("no Debian")
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(out.read_text())
        versions = {each["name"]: each["versionInfo"] for each in document["packages"]}
        self.assertEqual(versions["peercache"], "1.2.3")
        libc = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libc6"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        self.assertEqual(versions["libc6"], libc)
        self.assertIn("libtinfo6", versions)
        self.assertIn("libcli11-dev", versions)
        self.assertEqual(document["creationInfo"]["created"], "1970-01-02T00:00:00Z")


if __name__ == "__main__":
    unittest.main()
