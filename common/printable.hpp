#pragma once

#include <string>

namespace peercache {

/// Returns the text with a `?` in place of each byte that is not printable ASCII. For texts from
/// other processes that get into log lines, JSON, terminals and comments of files.
std::string printable(std::string text);

} // namespace peercache
