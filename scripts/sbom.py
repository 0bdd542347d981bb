#!/usr/bin/env python3
"""Writes what a release is made of: scripts/sbom.py VERSION OUT FILE...

A document of SPDX 2.3 in JSON: each Debian package, with its version, whose shared libraries the files (programs and
libraries of this build) load, and each whose code is compiled into them. Debian knows the packages' licences and sources.
Errors: a library that no package has, or a package that is not installed.
"""
import json
import os
import pathlib
import subprocess
import sys

# Packages whose headers or static libraries are compiled into ours.
COMPILED_IN = ["libcli11-dev", "libtomlplusplus-dev", "nlohmann-json3-dev", "libxxhash-dev", "librust-blake3-dev"]


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def libraries(file):
    """Paths of all shared libraries that the file loads."""
    for line in output("ldd", file).splitlines():
        name, arrow, place = line.strip().partition(" => ")
        if arrow and place.startswith("not found"):
            sys.exit(f"sbom: {file}: {name} is not found")
        if arrow:
            yield place.split(" (")[0]

# Works of others that are compiled in from files of this tree: name, version and licence.
VENDORED = [("uPlot", "1.6.32", "MIT")]  # metrics/dashboard/vendor


def vendored(name, version, licence):
    return {"SPDXID": f"SPDXRef-{name}", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "licenseDeclared": licence}


def owner(library):
    """The package that a library belongs to; the package may list the path from before /lib was a link to /usr/lib."""
    real = os.path.realpath(library)
    for path in (real, real.removeprefix("/usr"), "/usr" + real):
        done = subprocess.run(["dpkg-query", "-S", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              check=False)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    sys.exit(f"sbom: no package has {library}")


def package(name):
    version, source = output("dpkg-query", "-W", "-f", "${Version} ${source:Package}\n", name).splitlines()[0].split()
    return {"SPDXID": f"SPDXRef-{name.replace('+', '-')}", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "sourceInfo": f"Debian source package {source}"}


def document(version, files, stamp):
    names = {owner(library) for file in files for library in libraries(file)} | set(COMPILED_IN)
    own = {"SPDXID": "SPDXRef-peercache", "name": "peercache", "versionInfo": version, "downloadLocation": "NOASSERTION",
           "licenseDeclared": "Apache-2.0"}
    packages = [package(name) for name in sorted(names)] + [vendored(*each) for each in VENDORED]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"peercache-{version}",
        "documentNamespace": f"urn:peercache:{version}:{stamp}",
        "creationInfo": {"created": stamp, "creators": ["Tool: scripts/sbom.py"]},
        "packages": [own, *packages],
        "relationships": [{"spdxElementId": own["SPDXID"], "relationshipType": "DEPENDS_ON", "relatedSpdxElement": each["SPDXID"]}
                          for each in packages],
    }


def main(version, out, *files):
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "0")
    stamp = output("date", "--utc", f"--date=@{epoch}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    pathlib.Path(out).write_text(json.dumps(document(version, files, stamp), indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
