#!/usr/bin/env python3
"""Fails when a program that was built with an earlier header may no longer run with this libpeercache.so.

    scripts/check_abi.py LIBRARY            compares the library with client/c/abi/peercache.abi (real.c_library_abi)
    scripts/check_abi.py --update LIBRARY   writes the description anew: after functions were added, and when a struct has
                                            grown at its end, which is for a reviewer to see
    scripts/check_abi.py --controls         shows that a removed field, a removed function and a changed type are found,
                                            and that a new function is not a fault

The description is that of abidw (package abigail-tools), with the types that the header shows. --controls builds
libraries from copies of the header, in which each function is empty.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "client/c/peercache.h"
KEPT = ROOT / "client/c/abi/peercache.abi"

FUNCTION = re.compile(r"^PEERCACHE_API ([^;]*?\))\s*;", re.MULTILINE)


def describe(library, header, file):
    subprocess.run(["abidw", "--exported-interfaces-only", "--header-file", str(header), "--drop-private-types",
                    "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed", "--no-architecture",
                    "--out-file", str(file), str(library)], check=True)


def differences(kept, library, header):
    """Changes of the library's ABI that abidiff reports and that break programs; empty when all
    programs go on running."""
    with tempfile.TemporaryDirectory() as folder:
        now = pathlib.Path(folder) / "now.abi"
        describe(library, header, now)
        done = subprocess.run(["abidiff", "--no-added-syms", str(kept), str(now)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout or "abidiff failed" if done.returncode else ""


def empty_library(header_text, folder):
    """A library with an empty function for each that the header declares; its ABI is the header's."""
    (folder / "peercache.h").write_text(header_text)
    source = folder / "empty.c"
    source.write_text('#include "peercache.h"\n' + "".join(
        f"{declared} {{ __builtin_trap(); }}\n" for declared in FUNCTION.findall(header_text)))
    library = folder / "libpeercache.so"
    script = ROOT / "client/c/exports.map"
    subprocess.run(["gcc", "-std=gnu99", "-g", "-w", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libpeercache.so.0",
                    f"-Wl,--version-script={script}", str(source), "-o", str(library)], check=True)
    return library


# Changes of the header, each with what it takes out and puts there, and whether it is a fault.
CONTROLS = [
    ("nothing", "", "", False),
    ("a removed field", "  uint64_t duplicates;", "//", True),
    ("a removed field of a page", "  uint32_t part_count;         /**<", "  /**<", True),
    ("a removed function", "PEERCACHE_API int peercache_prefetch(", "// int peercache_prefetch(", True),
    ("a wider type", "  uint32_t deadline_ms; /**< M", "  uint64_t deadline_ms; /**< M", True),
    ("another argument", "peercache_call_wait(peercache_call *call, uint32_t at_most_ms)",
     "peercache_call_wait(peercache_call *call, uint32_t at_most_ms, int more)", True),
    ("a field at a struct's end", "} peercache_flushed;", "  uint64_t more;\n} peercache_flushed;", True),
    ("a new function", "PEERCACHE_API void peercache_space_free(",
     "PEERCACHE_API void peercache_more(int what);\nPEERCACHE_API void peercache_space_free(", False),
]


def controls():
    text = HEADER.read_text()
    failed = 0
    for name, taken, put, is_fault in CONTROLS:
        if text.count(taken) != 1 and taken:
            sys.exit(f"check_abi: `{taken}` is not once in the header")
        with tempfile.TemporaryDirectory() as folder:
            library = empty_library(text.replace(taken, put) if taken else text, pathlib.Path(folder))
            found = differences(KEPT, library, library.parent / HEADER.name)
        right = bool(found) == is_fault
        failed += not right
        print(f"{name}: {'a fault' if found else 'no fault'}, {'as it should be' if right else 'WRONG'}")
        if not right:
            print(found)
    return failed


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--controls", action="store_true")
    parser.add_argument("library", nargs="?", type=pathlib.Path)
    options = parser.parse_args()
    if options.controls:
        return controls() > 0
    if options.library is None:
        parser.error("which library?")
    if options.update:
        KEPT.parent.mkdir(exist_ok=True)
        describe(options.library, HEADER, KEPT)
        return 0
    found = differences(KEPT, options.library, HEADER)
    print(found or "abi: ok")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
