"""Tests of a node's systemd unit, its user and its folder, by systemd's own programs."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = (ROOT / "config/peercache-node.service").read_text()
EXPOSURE_MAX = 4.0  # `systemd-analyze security` calls up to 4.9 OK


def run(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def verified(folder, text):
    """Returns the exit code of systemd-analyze, and what it prints about the unit, when the unit's program exists. The
    exit code is 0 even for unknown settings."""
    unit = pathlib.Path(folder) / "peercache-node.service"
    unit.write_text(re.sub("^ExecStart=[^ ]*", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    done = run("systemd-analyze", "verify", unit)
    return done.returncode, "\n".join(line for line in done.stdout.splitlines() if str(unit) in line)


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed (package systemd)")
class Unit(unittest.TestCase):
    def test_systemd_understands_every_line(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(verified(folder, UNIT), (0, ""))

    def test_a_word_that_systemd_does_not_know_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("LimitMEMLOK", verified(folder, UNIT.replace("LimitMEMLOCK", "LimitMEMLOK"))[1])

    def test_the_node_is_shut_in(self):
        with tempfile.TemporaryDirectory() as folder:
            verified(folder, UNIT)
            done = run("systemd-analyze", "security", "--offline=yes", pathlib.Path(folder) / "peercache-node.service")
            exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
            self.assertIsNotNone(exposure, done.stdout)
            self.assertLessEqual(float(exposure[1]), EXPOSURE_MAX, done.stdout)


class Start(unittest.TestCase):
    def test_systemd_waits_until_the_node_serves(self):
        self.assertRegex(UNIT, r"(?m)^Type=notify$")


class User(unittest.TestCase):
    def tree(self, folder, kind):
        place = pathlib.Path(folder) / f"usr/lib/{kind}.d"
        place.mkdir(parents=True)
        (pathlib.Path(folder) / "etc").mkdir()
        shutil.copy(ROOT / f"packaging/deb/{kind}.conf", place / "peercache.conf")

    @unittest.skipUnless(shutil.which("systemd-sysusers") and os.geteuid() == 0, "needs systemd-sysusers, and root")
    def test_sysusers_makes_the_user(self):
        with tempfile.TemporaryDirectory() as folder:
            self.tree(folder, "sysusers")
            done = run("systemd-sysusers", f"--root={folder}", "peercache.conf")
            self.assertEqual(done.returncode, 0, done.stdout)
            name, *_, home, shell = (pathlib.Path(folder) / "etc/passwd").read_text().strip().split(":")
            self.assertEqual((name, home, shell), ("peercache", "/var/lib/peercache", "/usr/sbin/nologin"))

    @unittest.skipUnless(shutil.which("systemd-tmpfiles") and os.geteuid() == 0, "needs systemd-tmpfiles, and root")
    def test_tmpfiles_makes_a_folder_that_others_do_not_read(self):
        with tempfile.TemporaryDirectory() as folder:
            self.tree(folder, "tmpfiles")
            done = run("systemd-tmpfiles", f"--root={folder}", "--create", "peercache.conf")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual((pathlib.Path(folder) / "var/lib/peercache").stat().st_mode & 0o7777, 0o750)


if __name__ == "__main__":
    unittest.main()
