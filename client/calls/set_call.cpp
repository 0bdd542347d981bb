#include "client/calls/set_call.hpp"

#include "client/calls/timed_copy.hpp"
#include "common/assert.hpp"
#include "common/copy.hpp"
#include "common/interruption.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

namespace peercache::client {

using link::append_record;

namespace {

using namespace std::chrono_literals;

/// How long a set waits for space. A pool without a slot to give is full of pages that are being
/// read, or that other clients fill: these can give way as soon as the node has acknowledged them.
constexpr auto space_patience = 200ms;
constexpr auto first_pause = 10ms;

} // namespace

set_call::set_call(client_impl& client, std::span<const set_page> pages,
                   std::span<page_result> results, deadline until, own_pool_ptr pool)
    : client_(client), pages_(pages), until_(until), pool_(std::move(pool)), plan_(pages, results) {
}

void set_call::run() {
  leave_out_those_here();
  if (!pool_)
    return plan_.fail(page_status::unreachable);
  bytes_ = plan_.bytes();
  if (bytes_ == 0)
    return;
  // A late call takes no slots: it would fill none of them, and other pages could use them.
  if (is_late())
    return plan_.fail(page_status::timed_out);
  const auto begun = std::chrono::steady_clock::now();
  set_window::stay stay{client_.session.board().window, bytes_, until_};
  waited_since(begun);
  if (!stay.entered())
    return plan_.fail(page_status::refused);
  take_leases();
  // The leased slots are filled while the node finds slots for the rest.
  const auto request = ask_for_slots(plan_.ask());
  copy_in();
  if (request) {
    take_answer(*request);
    copy_in();
  }
  wait_for_space();
  copy_fence();
  commit(stay);
  abandon_unfilled();
}

bool set_call::is_late() const noexcept {
  return std::chrono::steady_clock::now() >= until_ || client_.closing.given();
}

void set_call::leave_out_those_here() {
  // A duplicate is a page that this host's own slot table has now: a remembered location elsewhere
  // may be out of date. The directory finds other duplicates when the page is published.
  if (client_.options.duplicate == duplicate_mode::store)
    return;
  const auto key_at = [this](std::size_t i) -> const page_key& { return pages_[i].key; };
  const auto length_at = [this](std::size_t i) {
    return plan_.length_of(static_cast<std::uint32_t>(i));
  };
  find_each(pool_, pages_.size(), key_at, length_at,
            [this](std::size_t i, const std::optional<directory::page_location>& here) {
              if (here && plan_.is_here(i))
                pool_->slots.count_use(here->slot);
            });
}

void set_call::take_leases() {
  for (const auto index : plan_.without_slot()) {
    slot_id slot;
    if (pool_->leases.take(limits::granules_of(plan_.length_of(index)), slot))
      plan_.lease(index, slot);
  }
}

slot_request_ptr set_call::ask_for_slots(std::string lengths) {
  if (lengths.empty())
    return nullptr;
  auto request = std::make_shared<slot_request>(pool_, std::move(lengths));
  caf::anon_send(client_.session.actor(), link::reserve_atom_v, request);
  return request;
}

void set_call::take_answer(slot_request& request) {
  const close_signal::waiter at_close{client_.closing,
                                      [&request] { request.answer({}, page_status::closed); }};
  const auto begun = std::chrono::steady_clock::now();
  const auto answer = request.wait(until_);
  waited_since(begun);
  plan_.take_slots(answer.slots, answer.why_not);
}

void set_call::waited_since(std::chrono::steady_clock::time_point begun) {
  wait_.add(link::call_wait::room, pool_->node.name, std::chrono::steady_clock::now() - begun);
}

void set_call::wait_for_space() {
  const auto begun = std::chrono::steady_clock::now();
  const auto patience = std::min(until_, begun + space_patience);
  for (auto pause = first_pause; plan_.lacks_space(); pause *= 2) {
    const auto again = std::chrono::steady_clock::now() + pause;
    if (again >= patience || client_.closing.given() || interruption::look())
      return;
    std::this_thread::sleep_until(again);
    take_answer(*ask_for_slots(plan_.ask_again()));
    waited_since(begun);
    copy_in();
  }
}

void set_call::copy_in() {
  for (const auto& page : plan_.to_fill())
    if (interruption::look() || is_late() || !copy_in(page))
      plan_.too_late(page.index);
}

void set_call::abandon_unfilled() {
  if (auto unfilled = plan_.take_unfilled(); !unfilled.empty())
    caf::anon_send(pool_->gateway, link::abandon_atom_v, pool_->session, std::move(unfilled));
}

bool set_call::copy_in(const set_plan::page& page) {
  const auto& parts = pages_[page.index].parts;
  const auto length_bytes = plan_.length_of(page.index);
  PEERCACHE_ASSERT(pool_->slots.in_range(page.slot, length_bytes));
  auto to = pool_->bytes_to_fill(page.slot, length_bytes);
  std::uint64_t checksum = 0;
  if (parts.size() == 1 && length_bytes <= timed_copy::look_bytes) {
    checksum = copy_page_and_checksum(to, {parts[0].data, parts[0].bytes});
  } else {
    timed_copy whole{until_, /*digest=*/true};
    std::size_t offset = 0;
    for (const auto& part : parts) {
      if (!whole.copy(to.subspan(offset, part.bytes), {part.data, part.bytes}))
        return false;
      offset += part.bytes;
    }
    checksum = whole.digest();
  }
  plan_.filled(page.index, checksum);
  client_.totals.set_bytes.fetch_add(length_bytes, std::memory_order_relaxed);
  return true;
}

std::string set_call::next_lengths(const std::string& filled) {
  const auto length = link::record_at<link::filled_slot>(filled, 0).length_bytes;
  const auto granules = limits::granules_of(length);
  const slots_to_lease wanted(filled.size() / sizeof(link::filled_slot),
                              std::uint64_t{granules} * limits::granule_bytes,
                              pool_->memory.page_bytes());
  std::string lengths;
  for (auto more = pool_->leases.ask_for(granules, wanted.at_rest, wanted.most); more > 0; --more)
    append_record(lengths, granules * limits::granule_bytes);
  return lengths;
}

void set_call::commit(set_window::stay& stay) {
  pending_commit job;
  job.filled =
      plan_.commit([this](const link::filled_slot& page) { return pool_->make_readable(page); });
  if (job.filled.empty())
    return;
  PEERCACHE_ASSERT(bytes_ > 0 && bytes_ <= pages_.size() * limits::page_bytes_max);
  job.next_lengths = next_lengths(job.filled);
  job.pool = pool_;
  job.bytes = bytes_;
  job.mode = client_.options.duplicate == duplicate_mode::skip ? link::commit_mode::skip
                                                               : link::commit_mode::store;
  client_.queue_commit(std::move(job), stay);
}

} // namespace peercache::client
