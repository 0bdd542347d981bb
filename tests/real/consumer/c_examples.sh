#!/bin/sh
# Builds the examples of the C library as their first lines say, and runs them with a node of their own:
# c_examples.sh <prefix> <library folder> <C compiler> <C++ compiler> <work folder> <peercache-node>
set -eu
examples=$(cd "$(dirname "$0")/../../../examples" && pwd)
export PKG_CONFIG_PATH="$1/$2/pkgconfig" LD_LIBRARY_PATH="$1/$2"
mkdir -p "$5"
strict="-Wall -Wextra -Werror -pedantic"
# The output of pkg-config, and the warnings, are several flags, which the shell must split.
# shellcheck disable=SC2046,SC2086
"$3" -std=c99 $strict "$examples/quick_start.c" $(pkg-config --cflags --libs peercache) -o "$5/quick_start"
# shellcheck disable=SC2046,SC2086
"$4" -std=c++17 $strict "$examples/started_calls.cpp" $(pkg-config --cflags --libs peercache) -o "$5/started_calls"

cluster=c-examples-$$
rm -f "$5/ready"
mkfifo "$5/ready"
"$6" --node-name c-examples --cluster-name "$cluster" --pool-size 64MiB --net-control-port 0 \
  --net-data-port 0 --net-http-port 0 --log-level error >"$5/ready" &
node=$!
trap 'kill $node; wait $node || true' EXIT
read -r line <"$5/ready"
port=$(echo "$line" | sed -n 's/.*control=\([0-9]*\).*/\1/p')
"$5/quick_start" "$port" "$cluster"
"$5/started_calls" "$port" "$cluster"
