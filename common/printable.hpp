#pragma once

#include <string>

namespace peercache {

/// The text with a `?` in place of each byte that is not printable ASCII, for texts of others that
/// come into log lines, JSON, terminals and comments of files.
std::string printable(std::string text);

} // namespace peercache
