// What the history (tests/support/history.hpp) and the checks see of a node.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <utility>

namespace peercache::scenario {

void process::record_hold(const page_key& key, std::span<const std::byte> bytes) const {
  if (auto* record = cluster_.record())
    record->hold(cluster_.time().now(), to_string(inc_), key, bytes);
}

tests::history::call_number process::record_ask(time_point until, std::string_view kind) const {
  auto* record = cluster_.record();
  return record != nullptr ? record->ask(cluster_.time().now(), until, to_string(inc_), kind) : 0;
}

void process::record_return(tests::history::call_number call) const {
  if (auto* record = cluster_.record())
    record->returned(call, cluster_.time().now());
}

/// Records in the history which pages have left memory since the last call of this method.
void process::record_drops() {
  auto* record = cluster_.record();
  if (record == nullptr)
    return;
  const auto before = std::exchange(recorded_, {});
  pool_->for_each_page([this](const auto& page) { recorded_.insert(page.key); });
  for (const auto& key : before)
    if (!recorded_.contains(key))
      record->drop(cluster_.time().now(), to_string(inc_), key);
}

std::uint32_t process::pins() const {
  std::uint32_t all = 0;
  for (std::uint32_t i = 0; i < here_.slots.granules(); ++i)
    all += entries_[i].pins.load();
  return all;
}

} // namespace peercache::scenario
