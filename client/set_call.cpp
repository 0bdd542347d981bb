#include "client/set_call.hpp"

#include "actors/protocol/pool_wire.hpp"
#include "client/page_length.hpp"
#include "client/timed_copy.hpp"
#include "common/copy.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

namespace peercache::client {
namespace {

using actors::append_record;
using actors::no_slot;

/// What one client may keep reserved between two sets: some batches, so that the next sets need not
/// wait for the acknowledgement of this one.
constexpr std::uint64_t lease_bytes_max = 32u << 20;
constexpr std::uint64_t lease_share_of_pool = 64;
constexpr std::uint64_t lease_batches = 16;

} // namespace

set_call::set_call(cache_client::impl& client, std::span<const set_page> pages,
                   std::span<page_result> results, deadline until, own_pool_ptr pool)
    : client_(client), pages_(pages), results_(results), until_(until), pool_(std::move(pool)),
      slots_(pages.size(), no_slot), checksums_(pages.size()) {}

void set_call::run() {
  sort_out();
  if (!pool_)
    return fail_pending(page_status::unreachable);
  if (bytes_ == 0)
    return;
  if (is_late()) // Slots that nothing will be copied into would cost other pages theirs.
    return fail_pending(page_status::timed_out);
  if (!client_.session.board().window.enter(bytes_, until_))
    return fail_pending(page_status::refused);
  // While the node finds slots for the rest, the leased ones are filled.
  auto without = take_leases();
  auto request = without.empty() ? nullptr : ask_for_slots(without);
  copy_in();
  if (request) {
    take_answer(*request, without);
    copy_in();
  }
  copy_fence();
  commit();
  abandon_unfilled();
}

bool set_call::is_late() const noexcept {
  return std::chrono::steady_clock::now() >= until_ || client_.closing.given();
}

void set_call::sort_out() {
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    auto& result = results_[i];
    result = {};
    result.length_bytes = length_of(pages_[i].parts);
    if (result.length_bytes == 0)
      result.status = page_status::bad_size;
  }
  leave_out_those_here();
  for (const auto& result : results_)
    if (result.status == page_status::pending)
      bytes_ += result.length_bytes;
}

void set_call::leave_out_those_here() {
  // Only what this host's own slot table confirms now: a remembered location elsewhere may be out
  // of date. The directory finds those duplicates when the page is published.
  if (client_.options.duplicate == duplicate_mode::store)
    return;
  const auto key_at = [this](std::size_t i) -> const page_key& { return pages_[i].key; };
  const auto length_at = [this](std::size_t i) { return results_[i].length_bytes; };
  find_each(pool_, pages_.size(), key_at, length_at,
            [this](std::size_t i, const std::optional<directory::page_location>& here) {
              if (!here || results_[i].status != page_status::pending)
                return;
              results_[i].status = page_status::duplicate;
              if (here->gen.readable()) // Otherwise it is the newest anyway.
                pool_->slots.count_use(here->slot);
            });
}

std::vector<std::uint32_t> set_call::take_leases() {
  std::vector<std::uint32_t> without;
  for (std::uint32_t i = 0; i < pages_.size(); ++i)
    if (results_[i].status == page_status::pending &&
        !pool_->leases.take(slot_leases::granules_of(results_[i].length_bytes), slots_[i]))
      without.push_back(i);
  return without;
}

slot_request_ptr set_call::ask_for_slots(const std::vector<std::uint32_t>& indices) {
  std::string lengths;
  for (auto index : indices)
    append_record(lengths, results_[index].length_bytes);
  auto request = std::make_shared<slot_request>(pool_, std::move(lengths));
  caf::anon_send(client_.session.committer(), actors::reserve_atom_v, request);
  return request;
}

void set_call::take_answer(slot_request& request, const std::vector<std::uint32_t>& indices) {
  const close_signal::waiter at_close{client_.closing,
                                      [&request] { request.answer({}, page_status::closed); }};
  auto answer = request.wait(until_);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    auto slot = (i + 1) * sizeof(slot_id) <= answer.slots.size()
                    ? actors::record_at<slot_id>(answer.slots, i)
                    : no_slot;
    slots_[indices[i]] = slot;
    if (slot == no_slot)
      results_[indices[i]].status =
          answer.why_not == page_status::pending ? page_status::no_space : answer.why_not;
  }
}

void set_call::copy_in() {
  for (std::uint32_t i = 0; i < pages_.size(); ++i) {
    if (results_[i].status != page_status::pending || slots_[i] == no_slot)
      continue;
    if (!is_late() && copy_in(i))
      continue;
    results_[i].status = page_status::timed_out;
    append_record(unfilled_, slots_[i]);
  }
}

void set_call::abandon_unfilled() {
  if (!unfilled_.empty())
    caf::anon_send(pool_->gateway, actors::abandon_atom_v, pool_->session, std::move(unfilled_));
}

bool set_call::copy_in(std::uint32_t index) {
  const auto& page = pages_[index];
  auto& result = results_[index];
  auto to = pool_->slots.bytes(slots_[index], result.length_bytes);
  bool digest_wanted = client_.options.checksum;
  const bool small = result.length_bytes <= timed_copy::look_bytes;
  if (small && page.parts.size() == 1 && digest_wanted) {
    checksums_[index] = copy_page_and_checksum(to, {page.parts[0].data, page.parts[0].bytes});
  } else if (small && page.parts.size() == 1) {
    copy_page(to, {page.parts[0].data, page.parts[0].bytes});
  } else {
    timed_copy whole{until_, digest_wanted};
    std::size_t offset = 0;
    for (const auto& part : page.parts) {
      if (!whole.copy(to.subspan(offset, part.bytes), {part.data, part.bytes}))
        return false;
      offset += part.bytes;
    }
    if (digest_wanted)
      checksums_[index] = whole.digest();
  }
  result.status = page_status::stored;
  result.origin = page_origin::own_host;
  client_.totals.set_bytes.fetch_add(result.length_bytes, std::memory_order_relaxed);
  return true;
}

std::string set_call::make_readable() {
  std::string packed;
  packed.reserve(pages_.size() * sizeof(actors::filled_slot));
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (results_[i].status != page_status::stored)
      continue;
    actors::filled_slot filled;
    filled.key = pages_[i].key;
    filled.slot = slots_[i];
    filled.length_bytes = results_[i].length_bytes;
    filled.checksum = checksums_[i];
    if (pool_->make_readable(filled)) {
      append_record(packed, filled);
    } else {
      results_[i].status = page_status::refused;
      append_record(unfilled_, filled.slot);
    }
  }
  return packed;
}

std::string set_call::next_lengths(const std::string& filled) {
  auto length = actors::record_at<actors::filled_slot>(filled, 0).length_bytes;
  auto granules = slot_leases::granules_of(length);
  auto page_bytes = std::uint64_t{granules} * limits::granule_bytes;
  auto lease_bytes = std::min(lease_bytes_max, pool_->memory.page_bytes() / lease_share_of_pool);
  auto pages = filled.size() / sizeof(actors::filled_slot);
  auto target = std::min<std::uint64_t>(pages * lease_batches, lease_bytes / page_bytes);
  std::string lengths;
  for (auto more = pool_->leases.ask_for(granules, target); more > 0; --more)
    append_record(lengths, granules * limits::granule_bytes);
  return lengths;
}

void set_call::commit() {
  auto& board = client_.session.board();
  commit_job job;
  job.filled = make_readable();
  if (job.filled.empty()) {
    board.window.leave(bytes_, 1, {});
    return;
  }
  job.next_lengths = next_lengths(job.filled);
  job.pool = pool_;
  job.bytes = bytes_;
  job.mode = client_.options.duplicate == duplicate_mode::skip ? actors::commit_mode::skip
                                                               : actors::commit_mode::store;
  if (board.commits.push(std::move(job)))
    caf::anon_send(client_.session.committer(), actors::commit_atom_v);
}

void set_call::fail_pending(page_status reason) {
  for (auto& result : results_)
    if (result.status == page_status::pending)
      result.status = reason;
}

} // namespace peercache::client
