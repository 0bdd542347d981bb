#include "handoff/transfer_reads.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::handoff {

join_id transfer_reads::start(job wanted) {
  const join_id id{next_job_.value++};
  jobs_[id].what = std::move(wanted);
  waiting_.push_back(id);
  settle(id);
  return id;
}

void transfer_reads::cancel(join_id id, const std::string& reason) {
  if (const auto found = jobs_.find(id); found != jobs_.end())
    fail(id, found->second, reason);
}

std::optional<read_order> transfer_reads::next_read() {
  while (!waiting_.empty() && wire_bytes_ < options_.wire_bytes_max) {
    const auto id = waiting_.front();
    waiting_.pop_front();
    const auto found = jobs_.find(id);
    if (found == jobs_.end() || found->second.all_ordered())
      continue;
    auto order = read_of(id, found->second);
    if (!found->second.all_ordered())
      waiting_.push_back(id);
    return order;
  }
  return std::nullopt;
}

read_order transfer_reads::read_of(join_id id, open_job& from) {
  read_order order;
  order.id = {next_read_.value++};
  order.turn = id;
  order.from = from.what.from;
  order.under = from.what.under;
  while (!from.all_ordered() && order.bytes < options_.read_bytes_max &&
         order.pieces.size() < options_.read_pieces_max)
    add_piece(order, from);
  reads_.emplace(order.id, open_read{id, order.bytes});
  wire_bytes_ += order.bytes;
  ++from.reads;
  return order;
}

void transfer_reads::add_piece(read_order& order, open_job& from) const {
  const auto& whole = from.what.pieces[from.next];
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(whole.bytes - from.offset, options_.piece_bytes_max));
  piece made;
  made.source = {whole.source + from.offset, bytes, 1, bytes};
  made.bytes = bytes;
  made.first_part = static_cast<std::uint32_t>(order.parts.size());
  made.part_count = 1;
  order.pieces.push_back(made);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): engines tell their addresses as numbers.
  order.parts.push_back({reinterpret_cast<std::byte*>(whole.destination + from.offset), bytes});
  order.bytes += bytes;
  from.offset += bytes;
  if (from.offset == whole.bytes) {
    ++from.next;
    from.offset = 0;
  }
}

void transfer_reads::finish_read(read_id id, bool good, const std::string& reason) {
  const auto found = reads_.find(id);
  PEERCACHE_ASSERT(found != reads_.end());
  const auto [job, bytes] = found->second;
  reads_.erase(found);
  wire_bytes_ -= bytes;
  auto& at = jobs_.at(job);
  --at.reads;
  if (!good && !at.failure)
    fail(job, at, reason);
  else
    settle(job);
}

void transfer_reads::fail(join_id id, open_job& at, const std::string& reason) {
  if (at.failure)
    return;
  at.failure = reason;
  if (at.reads != 0)
    cancels_.push_back(id);
  settle(id);
}

/// Reports the job as finished when all its pieces were ordered and none of its reads is under way.
void transfer_reads::settle(join_id id) {
  const auto found = jobs_.find(id);
  const auto& at = found->second;
  if (at.reads != 0 || !at.all_ordered())
    return;
  finished_.push_back({id, !at.failure, at.failure.value_or("")});
  jobs_.erase(found);
}

bool transfer_reads::writes_to(join_id id, const memory_range& memory) const {
  const auto found = jobs_.find(id);
  if (found == jobs_.end())
    return false;
  const auto& pieces = found->second.what.pieces;
  return std::any_of(pieces.begin(), pieces.end(), [&memory](const auto& each) {
    return each.destination_range().overlaps(memory);
  });
}

bool transfer_reads::writes_to(const memory_range& memory) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& each) { return writes_to(each.first, memory); });
}

} // namespace peercache::handoff
