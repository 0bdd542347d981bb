#include "handoff/receiver_rooms.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"

#include <algorithm>

namespace peercache::handoff {
namespace {

error wrong_call(room_id room, std::string_view what) {
  return {errc::invalid_argument, "room " + std::to_string(room.value) + " " + std::string(what)};
}

bool within_limits(const allocated_pages& pages) noexcept {
  return pages.pages.size() <= limits::room_pages_max &&
         pages.prefix_pages <= limits::room_pages_max &&
         std::all_of(pages.states.begin(), pages.states.end(), [](const auto& states) {
           return states.items.size() <= limits::room_pages_max;
         });
}

/// Returns the first sender that has pieces waiting to be read; the end when none has.
template <class Senders>
auto first_waiting(Senders& senders) {
  return std::find_if(senders.begin(), senders.end(),
                      [](const auto& each) { return !each.waiting.empty(); });
}

} // namespace

std::pair<join_id, receiver_rooms::turn*> receiver_rooms::find(room_id room) noexcept {
  const auto id = current_.find(room);
  if (id == current_.end())
    return {{}, nullptr};
  return {id->second, &turns_.at(id->second)};
}

const receiver_rooms::turn* receiver_rooms::find(room_id room) const noexcept {
  const auto id = current_.find(room);
  return id == current_.end() ? nullptr : &turns_.at(id->second);
}

// -- calls of the engine

result<void> receiver_rooms::open(room_id room) {
  if (current_.contains(room))
    return wrong_call(room, "is open already at this decode worker, and must be cleared first");
  if (turns_.size() >= options_.rooms_max)
    return error{errc::refused, std::to_string(turns_.size()) + " rooms are open: no more"};
  const join_id id{next_turn_.value++};
  turns_[id].room = room;
  ++states_[room_state::bootstrapping];
  current_[room] = id;
  changed_.insert(room);
  return {};
}

result<void> receiver_rooms::connect(room_id room, std::vector<source> sources) {
  auto [id, at] = find(room);
  if (at == nullptr || has_ended(*at) || !at->senders.empty())
    return wrong_call(room, "is not open, has ended or is connected already");
  const auto with_aux = std::count_if(sources.begin(), sources.end(),
                                      [](const auto& each) { return each.plan->role().aux; });
  if (with_aux != 1)
    return wrong_call(room, "has " + std::to_string(with_aux) + " senders of its aux row");
  at->senders.reserve(sources.size());
  for (auto& each : sources)
    at->senders.emplace_back().from = std::move(each);
  set_state(*at, room_state::waiting_for_input);
  return {};
}

result<void> receiver_rooms::allocate(room_id room, allocated_pages pages) {
  auto [id, at] = find(room);
  if (at == nullptr || has_ended(*at) || at->senders.empty() || at->pages)
    return wrong_call(room, "is not connected, has ended or has pages already");
  if (!within_limits(pages))
    return wrong_call(room, "has more pages than a room may have");
  for (auto& each : at->senders) {
    each.next_page = pages.prefix_pages;
    actions_.push_back(
        outgoing{each.from.peer,
                 join{room, id, pages.prefix_pages, static_cast<std::uint32_t>(pages.pages.size()),
                      each.from.plan->role().dummy(), each.from.plan->receivers()}});
  }
  at->pages = std::move(pages);
  return {};
}

void receiver_rooms::abort(room_id room, std::string reason, failure_kind kind) {
  if (auto [id, at] = find(room); at != nullptr)
    fail(id, *at, kind, std::move(reason));
}

void receiver_rooms::clear(room_id room) {
  auto [id, at] = find(room);
  if (at == nullptr)
    return;
  fail(id, *at, failure_kind::aborted, "decode has given the room up");
  at->cleared = true;
  current_.erase(room);
  changed_.erase(room);
  settle(id, *at);
}

void receiver_rooms::abort_all(const std::string& reason) {
  for (auto& [id, at] : turns_)
    fail(id, at, failure_kind::memory, reason);
}

room_state receiver_rooms::poll(room_id room) const noexcept {
  const auto* at = find(room);
  return at == nullptr ? room_state::failed : at->state;
}

std::vector<room_id> receiver_rooms::take_changes() {
  const auto changed = std::exchange(changed_, {});
  return {changed.begin(), changed.end()};
}

std::optional<room_failure> receiver_rooms::failure(room_id room) const {
  const auto* at = find(room);
  if (at == nullptr || at->state != room_state::failed)
    return std::nullopt;
  return at->failure;
}

std::optional<transfer_metric> receiver_rooms::metric(room_id room) const noexcept {
  const auto* at = find(room);
  if (at == nullptr || at->state != room_state::success)
    return std::nullopt;
  return at->metric;
}

bool receiver_rooms::is_quiet(room_id room) const noexcept {
  return !reads_of_.contains(room);
}

// -- messages and connections of senders

void receiver_rooms::offered(peer_id peer, const offer& said, time_point now) {
  const auto refuse = [&](const char* why) {
    actions_.push_back(outgoing{peer, handoff::abort{said.room, said.id, why}});
  };
  const auto found = turns_.find(said.id);
  if (found == turns_.end() || found->second.room != said.room || has_ended(found->second))
    return refuse("the room has ended at decode");
  auto& at = found->second;
  const auto from = std::find_if(at.senders.begin(), at.senders.end(),
                                 [peer](const auto& each) { return each.from.peer == peer; });
  if (from == at.senders.end())
    return refuse("decode did not ask this worker");
  if (!at.pages)
    return fail(said.id, at, failure_kind::protocol,
                "an offer came from a worker that was not asked yet");
  if (!at.first_offer)
    at.first_offer = now;
  take_offer(said.id, at, *from, said);
  if (!has_ended(at))
    advance(said.id, at, now);
}

void receiver_rooms::take_offer(join_id id, turn& at, sender& from, const offer& said) {
  if (from.from.plan->role().dummy() || from.last || said.pages.first_page != from.next_page)
    return fail(id, at, failure_kind::protocol, "prefill's offers do not follow one another");
  if (from.under && *from.under != said.under)
    return fail(id, at, failure_kind::protocol, "prefill's offers have different leases");
  if (from.waiting.size() >= options_.offers_waiting_max)
    return fail(id, at, failure_kind::protocol, "prefill makes too many offers");
  auto pieces = from.from.plan->pieces(said.pages, *at.pages);
  if (!pieces)
    return fail(id, at, failure_kind::misfit, pieces.error().message);
  set_state(at, room_state::transferring);
  from.under = said.under;
  from.next_page += static_cast<std::uint32_t>(said.pages.pages.size());
  from.last = said.pages.last;
  from.promised += pieces->bytes();
  if (pieces->bytes() != 0) {
    from.waiting.push_back(std::move(*pieces));
    readable_.insert(id);
  }
}

void receiver_rooms::aborted(peer_id peer, const handoff::abort& said) {
  const auto found = turns_.find(said.id);
  if (found == turns_.end() || found->second.room != said.room)
    return;
  for (const auto& each : found->second.senders)
    if (each.from.peer == peer)
      return fail(said.id, found->second, kind_of(said), "prefill has aborted: " + said.reason);
}

void receiver_rooms::lost(peer_id peer) {
  for (auto& [id, at] : turns_)
    if (std::any_of(at.senders.begin(), at.senders.end(),
                    [peer](const auto& each) { return each.from.peer == peer; }))
      fail(id, at, failure_kind::peer_lost, "the connection to prefill has ended");
}

// -- reads of pieces from senders

std::optional<read_order> receiver_rooms::next_read() {
  if (wire_bytes_ >= options_.wire_bytes_max || readable_.empty())
    return std::nullopt;
  const auto id = *readable_.begin();
  auto& at = turns_.at(id);
  const auto from = first_waiting(at.senders);
  PEERCACHE_ASSERT(from != at.senders.end());
  auto order = read_of(id, at, static_cast<std::size_t>(from - at.senders.begin()));
  if (first_waiting(at.senders) == at.senders.end())
    readable_.erase(id);
  return order;
}

read_order receiver_rooms::read_of(join_id id, turn& at, std::size_t sender) {
  auto& from = at.senders[sender];
  PEERCACHE_ASSERT(!has_ended(at));
  read_order order;
  order.id = {next_read_.value++};
  order.turn = id;
  order.from = from.from.peer;
  order.under = *from.under;
  fill(order, from);
  PEERCACHE_ASSERT(order.bytes != 0);
  wire_bytes_ += order.bytes;
  ++at.reads;
  ++reads_of_[at.room];
  reads_[order.id] = {id, sender, order.bytes};
  return order;
}

void receiver_rooms::drop_waiting(join_id id, turn& at) {
  for (auto& each : at.senders)
    each.waiting.clear();
  readable_.erase(id);
}

void receiver_rooms::fill(read_order& order, sender& from) {
  const auto left = std::min(options_.wire_bytes_max - wire_bytes_, options_.read_bytes_max);
  while (!from.waiting.empty() && order.bytes < left &&
         order.pieces.size() < options_.read_pieces_max) {
    auto& first = from.waiting.front();
    if (auto next = first.next(order.parts)) {
      order.bytes += next->bytes;
      order.pieces.push_back(*next);
    }
    if (first.finished())
      from.waiting.pop_front();
  }
}

void receiver_rooms::finish_read(read_id id, read_end end, const std::string& reason,
                                 time_point now) {
  const auto found = reads_.find(id);
  PEERCACHE_ASSERT(found != reads_.end());
  const auto read = found->second;
  reads_.erase(found);
  auto& at = turns_.at(read.turn);
  PEERCACHE_ASSERT(at.reads != 0 && wire_bytes_ >= read.bytes);
  --at.reads;
  if (const auto of_room = reads_of_.find(at.room); --of_room->second == 0)
    reads_of_.erase(of_room);
  wire_bytes_ -= read.bytes;
  if (end == read_end::good)
    at.senders[read.sender].judged += read.bytes;
  else if (end == read_end::refused)
    fail(read.turn, at, failure_kind::lease, "prefill's lease had ended: " + reason);
  else
    fail(read.turn, at, failure_kind::read, "a read has failed: " + reason);
  if (!has_ended(at))
    advance(read.turn, at, now);
  settle(read.turn, at);
}

// -- state changes of turns

void receiver_rooms::advance(join_id id, turn& at, time_point now) {
  for (const auto& each : at.senders)
    if (!each.from.plan->role().dummy() &&
        (!each.last || (guard_on(guard::all_pieces) && each.judged != each.promised)))
      return;
  set_state(at, room_state::success);
  PEERCACHE_ASSERT(at.first_offer.has_value());
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now - *at.first_offer);
  at.metric.microseconds = static_cast<std::uint64_t>(took.count());
  drop_waiting(id, at);
  for (const auto& each : at.senders) {
    at.metric.bytes += each.judged;
    actions_.push_back(
        outgoing{each.from.peer, done{at.room, id, each.judged, at.metric.microseconds}});
  }
}

void receiver_rooms::fail(join_id id, turn& at, failure_kind kind, std::string reason) {
  if (has_ended(at))
    return;
  at.failing = true;
  at.failure = {std::move(reason), kind};
  drop_waiting(id, at);
  if (at.pages) // Pages are allocated, so the senders have been sent a join.
    for (const auto& each : at.senders)
      actions_.push_back(outgoing{
          each.from.peer, handoff::abort{at.room, id, at.failure.reason, at.failure.was_heard()}});
  if (at.reads != 0)
    actions_.push_back(cancel_reads{id});
  if (at.reads == 0 || !guard_on(guard::quiet))
    set_state(at, room_state::failed);
}

void receiver_rooms::set_state(turn& at, room_state state) {
  if (at.state == state)
    return;
  --states_[at.state];
  ++states_[state];
  at.state = state;
  if (!at.cleared)
    changed_.insert(at.room);
}

/// Finishes the turn once none of its reads is under way: a failing turn becomes `failed`, and a
/// turn that the engine has cleared is forgotten.
void receiver_rooms::settle(join_id id, turn& at) {
  if (at.reads != 0)
    return;
  if (at.failing)
    set_state(at, room_state::failed);
  if (!at.cleared)
    return;
  --states_[at.state];
  turns_.erase(id);
}

} // namespace peercache::handoff
