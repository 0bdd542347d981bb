#pragma once

#include "actors/link_names.hpp"

#include <string>

namespace peercache::actors {

/// What `/status.json` says of a node: a few of its numbers (docs/http.md).
std::string status_json(const node_report& node);

} // namespace peercache::actors
