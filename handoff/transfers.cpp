#include "handoff/transfers.hpp"

#include "common/assert.hpp"

namespace peercache::handoff {

std::optional<memory_range> transfers::remove_memory(std::uint64_t address) {
  const auto removed = memory_.remove(address);
  if (removed) {
    calls_.memory_leaves(*removed);
    requests_.memory_leaves(*removed);
    hand_out_finished();
  }
  return removed;
}

void transfers::cancel_all(const std::string& reason) {
  calls_.cancel_all(reason);
  requests_.cancel_all(reason);
  hand_out_finished();
}

bool transfers::said(peer_id peer, const message& what, time_point now) {
  if (const auto* write = std::get_if<transfer_write>(&what))
    return requests_.write(peer, *write, now);
  if (const auto* read = std::get_if<transfer_read>(&what))
    return requests_.read(peer, *read);
  if (const auto* lent = std::get_if<transfer_lent>(&what))
    return calls_.lent(peer, *lent);
  if (const auto* ended = std::get_if<transfer_ended>(&what))
    return calls_.ended(peer, *ended);
  if (const auto* stop = std::get_if<transfer_stop>(&what))
    return requests_.stop(peer, *stop), true;
  return false;
}

void transfers::lost(peer_id peer, const std::string& reason) {
  calls_.lost(peer, reason);
  requests_.lost(peer);
}

/// Tells the engine's calls and the peers' requests which of their reads have finished. What they
/// do then may finish further reads, so this goes on until none is left.
void transfers::hand_out_finished() {
  for (auto all = reads_.take_finished(); !all.empty(); all = reads_.take_finished())
    for (const auto& read : all) {
      const bool taken = calls_.read_finished(read) || requests_.read_finished(read);
      PEERCACHE_ASSERT(taken);
    }
}

void transfers::turn(time_point now) {
  hand_out_finished();
  calls_.turn(now);
  hand_out_finished();
}

std::vector<outgoing> transfers::take_messages() {
  auto all = calls_.take_messages();
  for (auto& each : requests_.take_messages())
    all.push_back(std::move(each));
  return all;
}

} // namespace peercache::handoff
