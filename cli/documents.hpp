#pragma once

#include <string>
#include <vector>

namespace peercache::cli {

/// A file that is generated from the commands and options of the programs.
struct document {
  std::string path; ///< Path of the file, below the folder that it is written to.
  std::string text;
};

/// The documents of the tree: docs/cli.md. Like `manual_pages`, removes the variables PEERCACHE_*
/// from the environment, since they would change the defaults that help tells. Threads: not while
/// another thread uses the environment.
std::vector<document> documents();

/// The manual pages of both programs, peercache.1 and peercache-node.1.
std::vector<document> manual_pages();

} // namespace peercache::cli
