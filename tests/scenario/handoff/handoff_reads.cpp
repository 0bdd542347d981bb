#include "tests/scenario/handoff/handoff_world.hpp"

#include "common/guards.hpp"

#include <algorithm>

/// The data plane of `handoff_world`: reads move a piece at a time. A cancelled read goes on until
/// its channel is destroyed, and is reported only then.
namespace peercache::handoff::test {
namespace {

bool covers(const rdma::served_spans::reading& spans, const source_rows& rows) {
  return spans.covers({rows.address, rows.stride_bytes, rows.rows, rows.row_bytes});
}

} // namespace

void handoff_world::step_reads(decode_rank& by) {
  for (std::size_t i = 0; i < by.reads.size();) {
    auto& at = by.reads[i];
    if (at.came == progress::going_on && chance(2))
      at.came = step_read(by, at);
    if (at.came != progress::going_on)
      at.sending.reset();
    if (at.came == progress::going_on || by.frozen) {
      ++i;
      continue;
    }
    by.rooms.finish_read(at.order.id,
                         at.came == progress::done ? read_end::good : read_end::refused,
                         "the lease has ended", {});
    by.reads.erase(by.reads.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

handoff_world::progress handoff_world::step_read(decode_rank& by, read& at) {
  const auto& from = *prefill_[at.source];
  const bool all_written = at.written == at.order.pieces.size();
  if ((at.cancelled && chance(4)) || (!ending_ && chance(300)))
    return progress::failed;
  if (at.written < at.fetched.size() && (one_sided_ || !by.frozen) && chance(2)) {
    write_piece(by, at);
    return progress::going_on;
  }
  if (all_written && at.stands)
    return *at.stands ? progress::done : progress::failed;
  if (from.process != at.source_process)
    return progress::failed;
  if (!one_sided_ && from.frozen)
    return progress::going_on;
  if (!at.begun)
    return begin_read(at);
  if (at.fetched.size() < at.order.pieces.size())
    return fetch_piece(at);
  if (!at.stands)
    judge(at, from);
  return progress::going_on;
}

/// Makes the checks that come before the first byte. Where a server sends the bytes, it looks
/// whether the memory is served and the lease stands. A one-sided reader should READ the lease's
/// entry last; with the guard `fence` off it reads and judges the entry here, too early.
handoff_world::progress handoff_world::begin_read(read& at) {
  const auto& from = *prefill_[at.source];
  at.begun = true;
  if (one_sided_) {
    if (!guard_on(guard::fence))
      judge(at, from);
    return progress::going_on;
  }
  judge(at, from);
  const auto& pieces = at.order.pieces;
  if (!*at.stands || !std::all_of(pieces.begin(), pieces.end(), [&](const auto& each) {
        return covers(from.spans.read(), each.source);
      }))
    return progress::failed;
  if (guard_on(guard::fence))
    at.stands.reset();
  return progress::going_on;
}

/// Moves one piece out of prefill's memory. A server takes a step to begin and one to send, between
/// which anything may happen; it holds the spans meanwhile.
handoff_world::progress handoff_world::fetch_piece(read& at) {
  const auto& rows = at.order.pieces[at.fetched.size()].source;
  if (!one_sided_ && !at.sending) {
    at.sending.emplace(prefill_[at.source]->spans.read());
    return covers(*at.sending, rows) ? progress::going_on : progress::failed;
  }
  if (mapping_ == mapping::unmapped) {
    if (!one_sided_)
      wrong("a server reads memory that is unmapped");
    return progress::failed;
  }
  std::vector<std::uint64_t> words;
  words.reserve(std::size_t{rows.rows} * rows.row_bytes / sizeof(std::uint64_t));
  for (std::uint32_t row = 0; row < rows.rows; ++row) {
    const auto read = prefill_[at.source]->memory.words_at(rows.address + row * rows.stride_bytes,
                                                           rows.row_bytes);
    words.insert(words.end(), read.begin(), read.end());
  }
  at.fetched.push_back(std::move(words));
  at.sending.reset();
  return progress::going_on;
}

void handoff_world::judge(read& at, const prefill_rank& from) {
  const auto& under = at.order.under;
  at.stands = from.spans.judge(under.slot, under.gen, under.key) == page_status::hit;
}

void handoff_world::write_piece(decode_rank& by, read& at) {
  const auto& piece = at.order.pieces[at.written];
  const auto& words = at.fetched[at.written];
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < piece.part_count; ++i) {
    const auto& part = at.order.parts[piece.first_part + i];
    const auto address = std::uint64_t{reinterpret_cast<std::uintptr_t>(part.data)};
    for (auto& word : by.memory.words_at(address, part.bytes)) {
      const auto page = by.memory.page_at(reinterpret_cast<std::uintptr_t>(&word));
      if (decode_pages_.of(page) != by.serials->at(at.order.turn))
        wrong("a page was written after it was given back");
      word = words.at(next++);
    }
  }
  ++at.written;
}

} // namespace peercache::handoff::test
