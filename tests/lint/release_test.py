"""Tests of a release's version, its list of changes, and its contents."""
import json
import os
import pathlib
import re
import shutil
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


PACKAGE = """#!/bin/sh
mkdir -p "$1"
{made} >"$1/wheel"
(cd "$1" && sha256sum wheel >SHA256SUMS)
"""


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class TwoBuilds(unittest.TestCase):
    """Tests of scripts/release in a small tree whose scripts/package writes what the shell command `made` prints."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.tree = self.root / "tree"
        (self.tree / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/release", self.tree / "scripts/release")
        (self.tree / "CMakeLists.txt").write_text("project(peercache VERSION 1.2.3 LANGUAGES C)\n")
        (self.tree / "CHANGELOG.md").write_text("# Changes\n\n## 1.2.3\n\n- A change.\n\n## 1.2.2\n\n- Another one.\n")
        self.program(self.root / "programs/cmake", "#!/bin/sh\n")
        self.program(self.root / "programs/getconf", "#!/bin/sh\necho glibc 2.36\n")

    def program(self, path, text):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def commit(self, *, made="echo bytes", sbom="echo inside"):
        self.program(self.tree / "scripts/package", PACKAGE.format(made=made))
        self.program(self.tree / "scripts/sbom.py", f'#!/bin/sh\n{sbom} >"$2"\n')
        for words in (["init", "--quiet"], ["add", "."],
                      ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "--message", "t"]):
            subprocess.run(["git", "-C", str(self.tree), *words], check=True)

    def release(self):
        """Runs scripts/release. Returns its exit code, its output, and the folder of the release."""
        (self.root / "tmp").mkdir(exist_ok=True)
        done = subprocess.run([self.tree / "scripts/release", self.root / "out"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, env={**os.environ, "TMPDIR": str(self.root / "tmp"),
                                                           "PATH": f"{self.root}/programs:{os.environ['PATH']}"})
        return done.returncode, done.stdout, self.root / "out"

    def test_equal_bytes_are_released_with_sums_over_all(self):
        self.commit()
        code, output, out = self.release()
        self.assertEqual(code, 0, output)
        self.assertEqual([line.split()[1] for line in (out / "SHA256SUMS").read_text().splitlines()],
                         ["CHANGES-1.2.3.md", "peercache-1.2.3.sbom.json", "wheel"])
        self.assertEqual((out / "CHANGES-1.2.3.md").read_text().strip(), "- A change.")
        subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=out, check=True)
        self.assertEqual(list((self.root / "tmp").iterdir()), [])

    def test_bytes_that_tell_their_folder_are_not_released(self):
        for differs in ({"made": "pwd"}, {"sbom": "pwd"}):
            with self.subTest(differs):
                shutil.rmtree(self.tree / ".git", ignore_errors=True)
                self.commit(**differs)
                code, output, out = self.release()
                self.assertEqual(code, 1, output)
                self.assertIn("two builds of the same sources differ", output)
                self.assertFalse(out.exists())

    def test_what_lies_in_the_folder_from_before_is_no_part_of_a_release(self):
        self.commit()
        self.assertEqual(self.release()[0], 0)
        code, output, _ = self.release()
        self.assertEqual(code, 1)
        self.assertIn("is not empty", output)

    def test_what_is_in_no_commit_is_not_released(self):
        self.commit()
        (self.tree / "CHANGELOG.md").write_text("## 1.2.3\n")
        self.assertIn("in no commit", self.release()[1])

    def test_artefacts_in_the_tree_are_not_a_change_of_it(self):
        self.assertIn("/dist/", (ROOT / ".gitignore").read_text().splitlines())


if __name__ == "__main__":
    unittest.main()
