#pragma once

#include "common/result.hpp"

namespace CLI {
class App;
} // namespace CLI

namespace peercache::cli {

/// Parses the words of a command line, for every program of ours. What CLI11 does not understand is
/// told in our own words: the first unknown word, the nearest known one, and where help is.
///
/// True: the callbacks have run, go on. False: help or a version was asked for and printed, end
/// well. Errors: `invalid_argument`. Threads: none.
result<bool> parse_words(CLI::App& app, int argc, const char* const* argv);

} // namespace peercache::cli
