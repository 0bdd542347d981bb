#include "handoff/transfer_requests.hpp"

#include <algorithm>
#include <cstdio>

namespace peercache::handoff {
namespace {

std::string not_registered(const memory_range& memory) {
  char text[128];
  std::snprintf(text, sizeof text,
                "%llu bytes at 0x%llx are not in one piece of memory that it has registered",
                static_cast<unsigned long long>(memory.bytes),
                static_cast<unsigned long long>(memory.address));
  return text;
}

} // namespace

bool transfer_requests::write(peer_id peer, const transfer_write& said, time_point now) {
  const name asked{peer, said.id};
  if (requests_.contains(asked))
    return false;
  if (is_full(peer))
    return refuse(asked, "it has too many transfers to do"), true;
  for (const auto& piece : said.pieces)
    if (!memory_.covers(piece.destination_range()))
      return refuse(asked, not_registered(piece.destination_range())), true;
  auto& made = requests_[asked];
  made.read = reads_.start(
      {peer, said.under, now + std::chrono::milliseconds(said.timeout_ms), said.pieces});
  reading_.emplace(*made.read, asked);
  return true;
}

bool transfer_requests::read(peer_id peer, const transfer_read& said) {
  const name asked{peer, said.id};
  if (requests_.contains(asked))
    return false;
  if (is_full(peer))
    return refuse(asked, "it has too many transfers to do"), true;
  for (const auto& range : said.ranges)
    if (!memory_.covers(range))
      return refuse(asked, not_registered(range)), true;
  auto given = leases_.take(said.id.value);
  if (!given)
    return refuse(asked, "it has no lease left"), true;
  messages_.push_back({peer, transfer_lent{said.id, *given}});
  requests_.emplace(asked, request{std::nullopt, given, said.ranges, false});
  return true;
}

bool transfer_requests::is_full(peer_id peer) const noexcept {
  const auto first = requests_.lower_bound({peer, {0}});
  const auto last = requests_.lower_bound({{peer.value + 1}, {0}});
  return requests_.size() >= options_.requests_max ||
         static_cast<std::size_t>(std::distance(first, last)) >= options_.per_peer_max;
}

void transfer_requests::refuse(const name& asked, const std::string& reason) {
  messages_.push_back({asked.first, transfer_ended{asked.second, false, reason}});
}

void transfer_requests::revoke(request& at) noexcept {
  if (at.given)
    leases_.revoke(*std::exchange(at.given, std::nullopt));
}

void transfer_requests::stop(peer_id peer, const transfer_stop& said) {
  const auto found = requests_.find({peer, said.id});
  if (found == requests_.end())
    return; // The request was answered before the stop came, and the answer is on its way.
  if (found->second.read)
    return reads_.cancel(*found->second.read, "the other worker has given the transfer up");
  revoke(found->second);
  requests_.erase(found);
}

void transfer_requests::lost(peer_id peer) {
  for (auto at = requests_.lower_bound({peer, {0}});
       at != requests_.end() && at->first.first == peer;) {
    auto& each = at->second;
    if (each.read) {
      each.peer_lost = true;
      reads_.cancel(*each.read, "the connection to the other worker has ended");
      ++at;
    } else {
      revoke(each);
      at = requests_.erase(at);
    }
  }
}

bool transfer_requests::read_finished(const transfer_reads::finished& read) {
  const auto found = reading_.find(read.id);
  if (found == reading_.end())
    return false;
  const auto asked = found->second;
  reading_.erase(found);
  const auto at = requests_.find(asked);
  if (!at->second.peer_lost)
    messages_.push_back({asked.first, transfer_ended{asked.second, read.good, read.reason}});
  requests_.erase(at);
  return true;
}

void transfer_requests::memory_leaves(const memory_range& memory) {
  for (auto& [asked, each] : requests_)
    if (each.read && reads_.writes_to(*each.read, memory))
      reads_.cancel(*each.read, "its memory was unregistered meanwhile");
    else if (std::any_of(each.ranges.begin(), each.ranges.end(),
                         [&](const auto& range) { return range.overlaps(memory); }))
      revoke(each);
}

void transfer_requests::cancel_all(const std::string& reason) {
  for (auto& [asked, each] : requests_)
    if (each.read)
      reads_.cancel(*each.read, reason);
    else
      revoke(each);
}

} // namespace peercache::handoff
