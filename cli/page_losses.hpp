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

/// What members say of how a page left them.
struct page_losses_told {
  std::vector<page_loss_row> rows; ///< The losses, the newest first.
  /// Names of members that did not answer: the page may have left them later than `rows` says.
  std::vector<std::string> silent;
};

/// Asks all members how the page left them. Nodes remember their last 131,072 losses, and of pages
/// whose holders are gone the last 65,536.
page_losses_told ask_losses(const discovery::view& view, const global_options& globals,
                            const page_key& key);

/// The loss in words: "evicted by node-2 12.3 s ago: make the pool larger ..."
std::string text_of(const page_loss_row& loss);
nlohmann::json to_json(const page_loss_row& loss);

} // namespace peercache::cli
