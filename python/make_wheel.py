#!/usr/bin/env python3
"""Builds the wheel of a built `_native` module and installs it beside: no network, no other folder.

The wheel is for every CPython from 3.10 on (the module keeps to the limited API) and for every machine whose glibc is as
new as that of the machine that builds it, which its name says: 2.36 on Debian 12. The libraries that the module needs
are in peercache/libs (scripts/bundle_libraries.py). A module for another machine is bundled from a tree (--root) whose
glibc is this machine's.

  <build>/stage   the package as the wheel has it
  <build>/dist    the wheel
  <build>/site    the wheel installed; what tests import
"""

import argparse
import os
import pathlib
import platform
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent
BUNDLE = SOURCE.parent / "scripts" / "bundle_libraries.py"
GLIBC = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[1].replace(".", "_")


def stage(module: pathlib.Path, folder: pathlib.Path, strip: str, root: list[str]) -> None:
    """Copies the package's files and the module into one folder, `folder`. `root` are words for the bundler."""
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(SOURCE / "peercache", folder / "peercache", ignore=ignored)
    shutil.copy(SOURCE / "setup.py", folder / "setup.py")
    staged = folder / "peercache" / module.name
    shutil.copy(module, staged)
    subprocess.run([strip, "--strip-unneeded", str(staged)], check=True)
    subprocess.run([sys.executable, "-B", str(BUNDLE), *root, str(folder / "peercache" / "libs"), str(staged)], check=True)


def run(arguments: list[str], folder: pathlib.Path, version: str) -> None:
    """Runs a step of the build; its output is shown only when it fails."""
    environment = {**os.environ, "PEERCACHE_WHEEL_VERSION": version, "PIP_ROOT_USER_ACTION": "ignore"}
    done = subprocess.run(arguments, cwd=folder, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)} failed:\n{done.stdout}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--module", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--machine", default=platform.machine())
    parser.add_argument("--strip", default="strip")
    parser.add_argument("--root", type=pathlib.Path)
    options = parser.parse_args()
    tag = f"manylinux_{GLIBC}_{options.machine}"
    dist, site = options.build / "dist", options.build / "site"
    stage(options.module, options.build / "stage", options.strip, ["--root", str(options.root)] if options.root else [])
    for folder in (dist, site):
        shutil.rmtree(folder, ignore_errors=True)
    run([options.python, "setup.py", "-q", "bdist_wheel", "--py-limited-api", "cp310", "--plat-name", tag,
         "--dist-dir", str(dist)],
        options.build / "stage", options.version)
    (wheel,) = dist.glob("*.whl")
    run([options.python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile",
         "--platform", tag, "--only-binary", ":all:", "--target", str(site), str(wheel)], options.build, options.version)


if __name__ == "__main__":
    main()
