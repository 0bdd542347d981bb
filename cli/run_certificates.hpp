#pragma once

#include "cli/node_process.hpp"
#include "common/result.hpp"

#include <filesystem>
#include <string>

namespace peercache::cli {

/// Makes a CA for a cluster that lives as long as a run. Returns a function that issues a node's
/// certificate by the node's name; the node's clients use that certificate too. @param folder is
/// created
result<node_certificates> make_run_certificates(const std::filesystem::path& folder,
                                                const std::string& cluster);

} // namespace peercache::cli
