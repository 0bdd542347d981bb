"""Tests that the arm64 tree has the libraries that scripts/install-deps names, and that it is made again only when it must be."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A place of packages, and a stand-in of mmdebstrap whose tree has a link and a file of CMake with absolute paths.
PROGRAMS = {
    "apt-get": 'echo "mirror/ Debian main stable"',
    "mmdebstrap": """for word in "$@"; do case $word in *.new) tree=$word ;; esac; done
mkdir -p "$tree/usr/lib" "$tree/usr/share" "$tree/etc" "$tree/dev/shm" "$tree/tmp"
ln -s /etc/found "$tree/usr/lib/link"
echo 'set(place "/usr/lib/found")' >"$tree/usr/lib/some.cmake"
echo "$@" >>"$(dirname "$0")/calls\"""",
}


def after(title, text):
    """The packages under one comment of a script's list."""
    return re.search(rf"# {title}[^\n]*\n((?:  [^#].*\n)+)", text).group(1).split()


class Arm64Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, body in PROGRAMS.items():
            path = self.folder / name
            path.write_text(f"#!/bin/sh\n{body}\n")
            path.chmod(0o755)

    def make(self):
        environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "PEERCACHE_ARM64_TREE": str(self.folder / "tree")}
        done = subprocess.run([ROOT / "scripts/arm64-tree"], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, str(self.folder / "tree")), done.stderr)
        return (self.folder / "calls").read_text().splitlines()

    def test_it_has_the_libraries_of_the_native_build(self):
        tree = (ROOT / "scripts/arm64-tree").read_text()
        deps = (ROOT / "scripts/install-deps").read_text()
        for title in ("libraries that the programs link", "libraries of the tests"):
            self.assertEqual(set(after(title, deps)) - set(after(title, tree)), set())

    def test_a_second_call_makes_nothing_and_another_list_does(self):
        self.assertEqual(len(self.make()), 1)
        self.assertEqual(len(self.make()), 1)
        (self.folder / "tree/made").write_text("fewer\n")
        self.assertEqual(len(self.make()), 2)

    def test_it_hides_no_folder_of_the_running_machine(self):
        self.make()
        self.assertEqual({path.name for path in (self.folder / "tree").iterdir()}, {"etc", "made", "usr"})

    def test_no_path_leads_out_of_the_tree(self):
        self.make()
        library = self.folder / "tree/usr/lib"
        self.assertEqual(os.readlink(library / "link"), "../../etc/found")
        self.assertEqual((library / "some.cmake").read_text(), 'set(place "${CMAKE_SYSROOT}/usr/lib/found")\n')


if __name__ == "__main__":
    unittest.main()
