#pragma once

#include "cli/command.hpp"
#include "client/admin_client.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace peercache::cli {

/// How a page left a node.
struct page_loss_row {
  std::string node; ///< Name of the node that says so.
  link::page_loss how = link::page_loss::evicted;
  std::uint64_t age_ms = 0;
};

/// Asks all members how the page left them, the last time first. Nodes remember their last 131,072
/// losses, and of pages whose holders are gone the last 65,536. A node that does not answer says
/// nothing.
std::vector<page_loss_row> ask_losses(const discovery::view& view, const global_options& globals,
                                      const page_key& key);

/// The loss in words: "evicted by node-2 12.3 s ago: make the pool larger ..."
std::string text_of(const page_loss_row& loss);
nlohmann::json to_json(const page_loss_row& loss);

} // namespace peercache::cli
