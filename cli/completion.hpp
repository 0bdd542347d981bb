#pragma once

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace peercache::cli {

/// A script for bash that completes the commands of `app`, their options, and the words of options
/// that take one of a few. Hidden commands are left out. Threads: none.
std::string bash_completion(const CLI::App& app);

} // namespace peercache::cli
