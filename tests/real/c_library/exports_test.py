"""Fails unless a library exports exactly the functions that the C header declares, each with the version PEERCACHE_0:
exports_test.py HEADER LIBRARY."""
import pathlib
import re
import subprocess
import sys

DECLARED = re.compile(r"^PEERCACHE_API [\w\s*]*?\b(peercache_\w+)\(", re.MULTILINE)


def exported(library):
    listing = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    names = [line.split()[-1] for line in listing.splitlines()]
    return {name for name in names if name != "PEERCACHE_0"}


def main(header, library):
    wanted = {f"{name}@@PEERCACHE_0" for name in DECLARED.findall(pathlib.Path(header).read_text())}
    found = exported(library)
    for name in sorted(wanted - found):
        print(f"{name} is declared and not exported")
    for name in sorted(found - wanted)[:20]:
        print(f"{name} is exported and not declared")
    print(f"{len(wanted)} functions declared, {len(found)} symbols exported")
    return wanted != found or not wanted


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
