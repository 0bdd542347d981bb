#!/usr/bin/env python3
"""Makes programs and modules independent of the machine's packages:
scripts/bundle_libraries.py [--root TREE] LIBRARIES FILE...

Copies the shared libraries that the files need into the folder LIBRARIES, each under a name that no other package has
(with a hash of its content), and makes the files, and the libraries themselves, look there by a path relative to
them. Left out, since every machine has its own: glibc, the compiler's run-time libraries, and libibverbs, whose
providers belong to the host (it is looked up by the running program). Needs patchelf. As auditwheel does for wheels,
which Debian does not have.

The files then run where glibc is as new as here, or newer. If this is Debian 12 (glibc 2.36), these are all machines
of our users. Files that were built for another machine take their libraries from TREE, a tree of Debian 12's packages
(scripts/arm64-tree).

Errors: a library that is not found, or, with a glibc no newer than Debian 12's, a symbol newer than Debian 12's.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

OF_EVERY_MACHINE = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+))\.so\.\d+$")
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
"""The newest versions of symbols that Debian 12 and Ubuntu 24.04 both have."""


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def needed(file: pathlib.Path) -> list[str]:
    """Names of the libraries that the file itself asks for."""
    return [name for name in output("patchelf", "--print-needed", str(file)).split() if not OF_EVERY_MACHINE.match(name)]


def places(file: pathlib.Path) -> dict[str, pathlib.Path]:
    """Where the loader finds each library of the file and of its libraries."""
    found = {}
    for line in output("ldd", str(file)).splitlines():
        name, arrow, place = line.strip().partition(" => ")
        if arrow and place.startswith("not found"):
            sys.exit(f"{file}: {name} is not found")
        if arrow:
            found[name] = pathlib.Path(place.split(" (")[0])
    return found


def places_in(root: pathlib.Path, file: pathlib.Path) -> dict[str, pathlib.Path]:
    """Where a loader that runs in the tree would find them. Debian's own loader looks in these folders."""
    found: dict[str, pathlib.Path] = {}
    asking = [file]
    while asking:
        by = asking.pop()
        for name in needed(by):
            if name in found:
                continue
            place = next((each for folder in ("lib", "usr/lib") for each in root.glob(f"{folder}/*-linux-gnu/{name}")), None)
            if place is None:
                sys.exit(f"{by}: {name} is not found in {root}")
            found[name] = place
            asking.append(place)
    return found


def glibc_here() -> tuple[int, ...]:
    return tuple(int(part) for part in (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[1].split("."))


def check_symbols(file: pathlib.Path) -> None:
    """Exits when the file needs a symbol newer than Debian 12's."""
    for family, version in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)", output("readelf", "--wide", "--dyn-syms", str(file))):
        if tuple(int(part) for part in version.split(".")) > NEWEST[family]:
            sys.exit(f"{file}: needs {family}_{version}, which not every machine of its users has")


def own_name(name: str, place: pathlib.Path) -> str:
    digest = hashlib.sha256(place.read_bytes()).hexdigest()[:8]
    stem, _, rest = name.partition(".so")
    return f"{stem}-peercache-{digest}.so{rest}"


class Bundle:
    """The folder of libraries, while it is filled."""

    def __init__(self, folder: pathlib.Path, root: pathlib.Path | None) -> None:
        self._folder = folder
        self._root = root
        self._names: dict[str, str] = {}  # For each library, its name in the bundle.
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, file: pathlib.Path) -> None:
        """Makes the file look for its libraries in the folder."""
        self._point(file, places_in(self._root, file) if self._root else places(file))

    def _point(self, file: pathlib.Path, found: dict[str, pathlib.Path]) -> None:
        # The builds of a newer release of Debian are for that release only.
        if self._root or glibc_here() <= NEWEST["GLIBC"]:
            check_symbols(file)
        names = needed(file)
        for name in names:
            self._take(name, found)
            output("patchelf", "--replace-needed", name, self._names[name], str(file))
        if names:
            path = os.path.relpath(self._folder.resolve(), file.parent.resolve())
            output("patchelf", "--set-rpath", f"$ORIGIN/{path}", str(file))

    def _take(self, name: str, found: dict[str, pathlib.Path]) -> None:
        if name in self._names:
            return
        self._names[name] = own_name(name, found[name])
        copy = self._folder / self._names[name]
        shutil.copy(found[name], copy)
        copy.chmod(0o755)
        output("patchelf", "--set-soname", copy.name, str(copy))
        self._point(copy, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path)
    parser.add_argument("libraries", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    bundle = Bundle(options.libraries, options.root)
    for file in options.files:
        bundle.add(file)


if __name__ == "__main__":
    main()
