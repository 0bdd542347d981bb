#!/bin/sh
# Usage: with_pkg_config.sh <prefix> <library folder> <compiler> <work folder>
set -eu
export PKG_CONFIG_PATH="$1/$2/pkgconfig"
mkdir -p "$4"
# The output of pkg-config is several flags, which the shell must split.
# shellcheck disable=SC2046
"$3" -std=c++20 -I"$(dirname "$0")/own" "$(dirname "$0")/main.cpp" -o "$4/consumer" $(pkg-config --cflags --libs peercache-cpp)
LD_LIBRARY_PATH="$1/$2" "$4/consumer"
