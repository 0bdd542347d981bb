#!/bin/sh
# Usage: exports.sh <libpeercache_client.so> Checks that the C++ library exports what its installed headers declare
# (cmake/peercache_client.map) and nothing internal, and contains no code of a node. every_header.cpp calls all that the
# headers declare.
set -eu
names=$(nm -D --defined-only --demangle "$1" | cut -d ' ' -f 3-)
others=$(printf '%s\n' "$names" | grep -vE '^peercache::' || true)
inside=$(printf '%s\n' "$names" | grep -E '^peercache::((actors|config|handoff|net|storage)::|client::([a-z_]+::impl|client_impl))' || true)
count=$(printf '%s\n' "$names" | wc -l)
if [ -n "$others$inside" ] || [ "$count" -gt 150 ]; then
  printf 'exports: %s names, of at most 150; among them\n%s\n%s\n' "$count" "$others" "$inside" | cut -c 1-120 | head -20
  exit 1
fi
if nm --demangle "$1" | grep -F ' peercache::actors::' | cut -c 1-120 | head -5 | grep .; then
  echo "exports: a node is inside, which no installed header shows"
  exit 1
fi
echo "exports: $count names"
