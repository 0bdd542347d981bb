// What a node does with the pages of its clients: slots, commits, removals.

#include "actors/protocol/pool_wire.hpp"
#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::tier;

std::string process::serve_reserve(const std::string& lengths) {
  std::string slots;
  for (std::size_t i = 0; i < actors::record_count<std::uint32_t>(lengths); ++i) {
    std::vector<storage::evicted> victims;
    const auto slot = pool_->reserve(actors::record_at<std::uint32_t>(lengths, i), victims);
    give_up(victims);
    actors::append_record(slots, slot ? *slot : actors::no_slot);
  }
  return slots;
}

void process::serve_commit(const std::string& filled, directory::publish_mode mode) {
  for (std::size_t i = 0; i < actors::record_count<actors::filled_slot>(filled); ++i) {
    const auto page = actors::record_at<actors::filled_slot>(filled, i);
    const storage::fill fill{page.slot, page.key, page.length_bytes, page.checksum};
    storage::commit_outcome outcome;
    pool_->commit({&fill, 1}, {&outcome, 1});
    if (outcome.replaced)
      give_up({*outcome.replaced});
    if (outcome.status != page_status::stored)
      continue;
    if (cluster_.settings().disk)
      cluster_.later(*this, 5ms, [key = page.key](process& self) { self.keep_on_disk(key); });
    publish_put(page.key, outcome.gen, mode);
  }
}

void process::serve_abandon(const std::string& slots) {
  for (std::size_t i = 0; i < actors::record_count<slot_id>(slots); ++i)
    pool_->abandon(actors::record_at<slot_id>(slots, i));
}

/// Out of memory and off the disk; what becomes of each page, one byte.
std::string process::serve_remove(const std::string& keys) {
  std::string statuses;
  for (std::size_t i = 0; i < actors::record_count<page_key>(keys); ++i) {
    const auto key = actors::record_at<page_key>(keys, i);
    bool had = host_.disk.erase(key) > 0;
    if (const auto gone = pool_->remove(key)) {
      had = true;
      give_up({*gone});
    } else if (joined()) {
      withdrawals_.push_back({{key, inc_, pool_->newest(), tier::disk}, 0});
    }
    statuses += static_cast<char>(had ? page_status::hit : page_status::not_found);
  }
  return statuses;
}

} // namespace peercache::scenario
