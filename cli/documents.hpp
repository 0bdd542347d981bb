#pragma once

#include <string>
#include <vector>

namespace peercache::cli {

/// A file that is generated from the commands and options of the programs.
struct document {
  std::string path; ///< Path of the file, below the folder that it is written to.
  std::string text;
};

/// Generates the documents that are checked in: docs/cli.md. Removes the variables PEERCACHE_* from
/// this process's environment, since they would change the defaults in the texts. Threads: not
/// while another thread uses the environment.
std::vector<document> documents();

/// Generates the manual pages of both programs, peercache.1 and peercache-node.1. Environment and
/// threads: as `documents`.
std::vector<document> manual_pages();

} // namespace peercache::cli
