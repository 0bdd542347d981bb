// Requests of clients to their node: slots, commits, removals.

#include "link/protocol/pool_wire.hpp"
#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

namespace peercache::scenario {

std::string process::serve_reserve(const std::string& lengths) {
  std::string slots;
  for (std::size_t i = 0; i < link::record_count<std::uint32_t>(lengths); ++i) {
    std::vector<storage::evicted> victims;
    const auto slot = pool_->reserve(link::record_at<std::uint32_t>(lengths, i), victims);
    publisher_->left(victims);
    link::append_record(slots, slot ? *slot : link::no_slot);
  }
  carry_out_orders();
  return slots;
}

void process::serve_commit(const std::string& filled, link::commit_mode mode) {
  std::vector<storage::fill> fills;
  for (std::size_t i = 0; i < link::record_count<link::filled_slot>(filled); ++i) {
    const auto page = link::record_at<link::filled_slot>(filled, i);
    fills.push_back({page.slot, page.key, page.length_bytes, page.checksum});
  }
  if (fills.empty())
    return;
  publisher_->put(fills, mode, cluster_.time().now());
  carry_out_orders();
  // The pool may have kept its former page of the key, although the history heard of the filled
  // page last. So the history is told which page the pool holds.
  for (const auto& fill : fills)
    if (const auto held = pool_->find(fill.key))
      record_hold(fill.key, here_.slots.bytes(held->slot, held->length_bytes));
}

void process::serve_abandon(const std::string& slots) {
  for (std::size_t i = 0; i < link::record_count<slot_id>(slots); ++i)
    pool_->abandon(link::record_at<slot_id>(slots, i));
}

/// Removes pages from memory at once, from disk a little later. Returns one page_status byte per
/// page.
std::string process::serve_remove(const std::string& keys) {
  auto statuses = publisher_->remove(keys);
  carry_out_orders();
  for (std::size_t i = 0; i < statuses.size(); ++i)
    if (host_.disk.find(link::record_at<page_key>(keys, i)) != nullptr)
      statuses[i] = static_cast<char>(page_status::hit);
  remove_from_disk(keys);
  return statuses;
}

} // namespace peercache::scenario
