"""Runs shellcheck (its path is the argument) over every shell script that is tracked."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INTERPRETER = re.compile(rb"#!.*\b(?:ba)?sh$")


def scripts():
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, files.split(b"\0")):
        path = ROOT / name.decode()
        if path.is_file() and INTERPRETER.match(path.read_bytes().partition(b"\n")[0]):
            yield path


found = sorted(scripts())
if not found:
    sys.exit("no shell script is tracked: is this a clone?")
sys.exit(subprocess.run([sys.argv[1], "--severity=warning", *found], check=False).returncode)
