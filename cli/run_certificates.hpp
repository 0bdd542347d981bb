#pragma once

#include "common/result.hpp"
#include "common/tls_paths.hpp"

#include <filesystem>
#include <string>

namespace peercache::cli {

/// Makes a CA for a cluster that lives as long as a run, and one certificate of it for all of its
/// nodes, which serves their clients, too. @param folder is created
result<tls_paths> make_run_certificates(const std::filesystem::path& folder,
                                        const std::string& cluster);

} // namespace peercache::cli
