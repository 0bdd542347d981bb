#include "tests/scenario/handoff/handoff_world.hpp"

#include "common/assert.hpp"
#include "handoff/distinct_memory.hpp"

#include <algorithm>

namespace peercache::handoff::test {
namespace {

constexpr int steps_with_faults = 800;
constexpr int steps_without_faults = 4000;
constexpr std::size_t requests_max = 5;
constexpr std::uint64_t numbers = 6;

receiver_rooms::options small_reads() {
  receiver_rooms::options made;
  made.wire_bytes_max = 256;
  made.read_bytes_max = 96;
  made.read_pieces_max = 4;
  return made;
}

} // namespace

handoff_world::prefill_rank::prefill_rank(const small_model& model, std::uint32_t rank,
                                          incarnation named)
    : process(named), memory(model, rank, true), leases(entries, named), rooms(leases, {}) {
  serve_memory();
}

void handoff_world::prefill_rank::serve_memory() {
  for (const auto& each : distinct_memory(memory.layout()))
    PEERCACHE_ASSERT(spans.add(each));
}

bool handoff_world::prefill_rank::stop_serving() {
  bool all = true;
  for (const auto& each : distinct_memory(memory.layout()))
    all &= spans.remove_unless_read(each.data());
  return all;
}

handoff_world::decode_rank::decode_rank(const small_model& model, std::uint32_t rank,
                                        incarnation named)
    : process(named), memory(model, rank, false), rooms(small_reads(), next_turn) {}

handoff_world::counts& handoff_world::counts::operator+=(const counts& more) {
  succeeded += more.succeeded;
  failed += more.failed;
  retracted += more.retracted;
  timed_out += more.timed_out;
  with_states += more.with_states;
  with_stages += more.with_stages;
  with_cp_shares += more.with_cp_shares;
  return *this;
}

handoff_world::handoff_world(std::uint64_t seed)
    : random_(seed), model_(random_), one_sided_(chance(2)) {
  for (std::uint32_t rank = 0; rank < model_.workers(true); ++rank)
    prefill_.push_back(std::make_unique<prefill_rank>(model_, rank, next_process()));
  for (std::uint32_t rank = 0; rank < model_.workers(false); ++rank)
    decode_.push_back(std::make_unique<decode_rank>(model_, rank, next_process()));
}

std::string handoff_world::run() {
  for (int i = 0; i < steps_with_faults && wrong_.empty(); ++i)
    step();
  if (wrong_.empty())
    finish_all();
  return wrong_;
}

void handoff_world::step() {
  if (!ending_) {
    inject_faults();
    if (requests_.size() < requests_max && chance(6))
      start_request();
  }
  unmap_when_unused();
  connect_workers();
  // By index, because a step in which a request succeeds may append another request.
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (chance(2))
      step_decode(requests_[i]);
    if (chance(2))
      step_prefill(requests_[i]);
  }
  for (auto& each : connections_)
    step_connection(each);
  std::erase_if(connections_,
                [](const auto& each) { return !each.prefill_has_it && !each.decode_has_it; });
  for (auto& each : decode_)
    step_reads(*each);
  carry_out();
  check_changes();
  std::erase_if(requests_, [](const auto& at) {
    return at.decode.at == phase::over && at.prefill.at == phase::over;
  });
}

/// Checks that `take_changes` has named each room since the room's state last changed.
void handoff_world::check_changes() {
  const auto hear = [](auto& rank) {
    for (const auto id : rank.rooms.take_changes())
      rank.told[id] = rank.rooms.poll(id);
  };
  for (auto& each : decode_)
    hear(*each);
  for (auto& each : prefill_)
    hear(*each);
  bool all = true;
  for (const auto& at : requests_) {
    if (at.decode.at == phase::running || at.decode.at == phase::ending)
      for (const auto& each : decode_)
        all &= each->told[at.number] == each->rooms.poll(at.number);
    if (at.prefill.at == phase::running)
      for (std::size_t rank = 0; rank < prefill_.size(); ++rank) {
        const auto id = at.prefill.ids[rank];
        all &= prefill_[rank]->told[id] == prefill_[rank]->rooms.poll(id);
      }
  }
  if (!all)
    wrong("a room's state has changed, and nobody is told");
}

/// Starts a request with a random number, unless another request has this number now.
void handoff_world::start_request() {
  const room_id number{random_() % numbers};
  if (std::none_of(requests_.begin(), requests_.end(),
                   [number](const auto& each) { return each.number == number; }))
    add_request(number);
}

/// Starts a request with the number of a room that has just succeeded at decode; prefill may not
/// have seen that room's end yet.
void handoff_world::start_again(room_id number) {
  ++counts_.retracted;
  add_request(number);
}

void handoff_world::add_request(room_id number) {
  request made;
  made.number = number;
  made.serial = next_serial_++;
  made.prefix = static_cast<std::uint32_t>(random_() % 3);
  made.length = static_cast<std::uint32_t>(1 + random_() % 4);
  made.window = static_cast<std::uint32_t>(random_() % (made.length + 1));
  requests_.push_back(std::move(made));
}

// -- faults that are injected at random

void handoff_world::inject_faults() {
  if (chance(600))
    kill_prefill();
  if (chance(600))
    kill_decode();
  if (chance(20))
    freeze_or_wake();
  if (chance(300))
    give_memory_back();
  for (auto& each : connections_)
    if (each.up && chance(400))
      cut(each);
  if (auto& one = *decode_[random_() % decode_.size()]; !one.frozen && chance(300))
    one.rooms.abort_all("decode gives its memory back");
}

void handoff_world::kill_prefill() {
  for (auto& each : connections_) {
    cut(each);
    each.prefill_has_it = false;
    each.to_prefill.clear();
  }
  for (auto& by : decode_)
    for (auto& each : by->reads)
      each.sending.reset();
  for (std::uint32_t rank = 0; rank < prefill_.size(); ++rank)
    prefill_[rank] = std::make_unique<prefill_rank>(model_, rank, next_process());
  prefill_pages_ = {};
  mapping_ = mapping::mapped;
  for (auto& at : requests_)
    at.prefill.at = phase::over; // The new processes of prefill never hear of this room.
}

void handoff_world::kill_decode() {
  for (auto& each : connections_) {
    cut(each);
    each.decode_has_it = false;
    each.to_decode.clear();
  }
  for (std::uint32_t rank = 0; rank < decode_.size(); ++rank)
    decode_[rank] = std::make_unique<decode_rank>(model_, rank, next_process());
  decode_pages_ = {};
  for (auto& at : requests_)
    at.decode.at = phase::over;
}

/// Freezes or wakes ranks at random. Sometimes the other engine then finds a frozen rank silent and
/// ends its connections.
void handoff_world::freeze_or_wake() {
  // Freezing one random rank is enough, because an engine stands still when one of its ranks does.
  auto turn = [this](auto& rank, std::size_t ranks) {
    rank.frozen = rank.frozen ? !chance(3) : chance(6 * static_cast<unsigned>(ranks));
    return rank.frozen && chance(3);
  };
  const auto prefill = random_() % prefill_.size();
  const auto decode = random_() % decode_.size();
  const bool prefill_silent = turn(*prefill_[prefill], prefill_.size());
  const bool decode_silent = turn(*decode_[decode], decode_.size());
  for (auto& each : connections_)
    if ((prefill_silent && each.prefill == prefill) || (decode_silent && each.decode == decode))
      cut(each);
}

/// Plays a change of prefill's weights: ends all of prefill's rooms, and has its memory unmapped
/// when no server reads from it.
void handoff_world::give_memory_back() {
  if (mapping_ != mapping::mapped ||
      std::any_of(prefill_.begin(), prefill_.end(), [](const auto& each) { return each->frozen; }))
    return;
  for (auto& each : prefill_)
    each->rooms.abort_all("prefill gives its memory back");
  for (auto& at : requests_)
    if (at.prefill.at == phase::running)
      leave_prefill(at);
  mapping_ = mapping::unmapping;
}

void handoff_world::unmap_when_unused() {
  if (mapping_ == mapping::unmapped && chance(10)) {
    for (auto& each : prefill_)
      each->serve_memory();
    mapping_ = mapping::mapped;
  }
  if (mapping_ != mapping::unmapping)
    return;
  bool all = true;
  for (auto& each : prefill_)
    all &= each->stop_serving();
  if (all)
    mapping_ = mapping::unmapped;
}

// -- methods that end a run

void handoff_world::finish_all() {
  ending_ = true;
  for (auto& each : prefill_)
    each->frozen = false;
  for (auto& each : decode_)
    each->frozen = false;
  for (int i = 0; i < steps_without_faults && wrong_.empty() && !requests_.empty(); ++i)
    step();
  for (int i = 0; i < 200 && wrong_.empty(); ++i)
    step();
  if (wrong_.empty())
    check_rest();
}

void handoff_world::check_rest() {
  if (!requests_.empty())
    return wrong("a room does not end");
  for (const auto& each : decode_)
    if (each->rooms.turns() != 0 || each->rooms.wire_bytes() != 0 || !each->reads.empty())
      wrong("decode has a room or a channel left");
  for (const auto& each : prefill_) {
    if (each->leases.taken() != 0 || each->rooms.rooms() != 0 || each->rooms.held_joins() != 0)
      wrong("prefill has a lease, a room or a join left");
    if (!each->stop_serving())
      wrong("a server reads prefill's memory for ever");
  }
  for (std::uint32_t page = 0; page < rank_memory::page_count; ++page)
    if (prefill_pages_.of(page) != page_owners::nobody ||
        decode_pages_.of(page) != page_owners::nobody)
      wrong("a page is not given back");
}

} // namespace peercache::handoff::test
