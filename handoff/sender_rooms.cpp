#include "handoff/sender_rooms.hpp"

#include "common/assert.hpp"

#include <algorithm>

namespace peercache::handoff {
namespace {

/// Why the states cannot be sent with these pages; empty when they can.
std::string fault_of(const std::vector<state_items>& states, bool last) {
  if (!last && !states.empty())
    return "the engine sends states before the last pages";
  if (states.size() > limits::state_components_max)
    return "the engine sends " + std::to_string(states.size()) + " components of states";
  for (const auto& each : states)
    if (each.items.size() > limits::room_pages_max)
      return "the engine sends " + std::to_string(each.items.size()) + " items of one component";
  return {};
}

error wrong_call(send_id id, std::string_view what) {
  return {errc::invalid_argument, "sender " + std::to_string(id.value) + " " + std::string(what)};
}

} // namespace

sender_rooms::room* sender_rooms::find(send_id id) noexcept {
  const auto found = rooms_.find(id);
  return found == rooms_.end() ? nullptr : &found->second;
}

const sender_rooms::room* sender_rooms::find(send_id id) const noexcept {
  const auto found = rooms_.find(id);
  return found == rooms_.end() ? nullptr : &found->second;
}

sender_rooms::room* sender_rooms::newest(room_id number) noexcept {
  const auto id = newest_.find(number);
  return id == newest_.end() ? nullptr : find(id->second);
}

// -- calls of the engine

result<send_id> sender_rooms::open(room_id number, std::optional<std::uint32_t> required) {
  if (required == 0)
    return error{errc::invalid_argument,
                 "room " + std::to_string(number.value) + " is opened for nobody"};
  if (auto* before = newest(number); before != nullptr && !before->has_ended())
    fail(*before, failure_kind::protocol, "its number came again");
  if (rooms_.size() >= options_.rooms_max)
    return error{errc::refused, std::to_string(rooms_.size()) + " rooms are open: no more"};
  const auto under = leases_.take(number.value);
  if (!under)
    return error{errc::refused, "all " + std::to_string(leases_.capacity()) + " leases are taken"};
  if (failed_.erase(number) != 0)
    std::erase(failed_order_, number);
  const send_id id{next_.value++};
  newest_[number] = id;
  changed_.insert(id);
  auto& made = rooms_[id];
  ++states_[made.state];
  made.id = id;
  made.number = number;
  made.required = required.value_or(0);
  made.under = *under;
  if (const auto waiting = held_.find(number); waiting != held_.end())
    for (const auto& [process, held] : std::map(waiting->second)) {
      forget_held(number, process);
      join_room(made, held.peer, held.said);
      if (held.done)
        finished(held.peer, done{number, held.said.id});
    }
  if (const auto ended = given_up_.find(number); ended != given_up_.end()) {
    made.known.insert(ended->second.receivers.begin(), ended->second.receivers.end());
    if (!made.has_ended())
      fail(made, ended->second.why.kind, ended->second.why.reason);
    forget_given_up(number);
  }
  return id;
}

std::optional<std::uint32_t> sender_rooms::prefix_pages(send_id id) const {
  const auto* at = find(id);
  if (at == nullptr || !at->all_have_joined())
    return std::nullopt;
  return at->receivers.begin()->second.said.prefix_pages;
}

result<void> sender_rooms::init(send_id id, std::uint32_t pages) {
  auto* at = find(id);
  if (at == nullptr)
    return wrong_call(id, "has no open room");
  if (at->has_ended())
    return wrong_call(id, "is told the number of pages of a room that has ended");
  if (at->pages)
    return wrong_call(id, "was told the number of its pages before");
  if (pages > limits::room_pages_max)
    return wrong_call(id, "is to send " + std::to_string(pages) +
                              " pages, and a room has at most " +
                              std::to_string(limits::room_pages_max));
  at->pages = pages;
  advance(*at);
  return {};
}

result<void> sender_rooms::send(send_id id, std::span<const std::uint32_t> pages, bool last,
                                std::vector<state_items> states, std::uint32_t aux_row) {
  auto* at = find(id);
  if (at == nullptr || at->has_ended())
    return wrong_call(id, "has no open room, or its room has ended");
  if (!at->pages || at->state < room_state::waiting_for_input)
    return wrong_call(id, "is to send pages before `init`, or before all receivers have joined");
  const auto behind = at->offered + std::uint64_t{pages.size()};
  auto fault = fault_of(states, last);
  if (at->last_sent || behind > *at->pages || (last && behind != *at->pages))
    fault = "the engine sends " + std::to_string(behind) + " pages and has said " +
            std::to_string(*at->pages);
  if (!fault.empty()) {
    fail(*at, failure_kind::protocol, fault);
    return error{errc::invalid_argument, std::move(fault)};
  }
  set_state(*at, room_state::transferring);
  const auto prefix = at->receivers.begin()->second.said.prefix_pages;
  do {
    const auto count = std::min<std::size_t>(pages.size(), limits::offer_pages_max);
    offered_pages part;
    part.first_page = prefix + at->offered;
    part.pages.assign(pages.begin(), pages.begin() + static_cast<std::ptrdiff_t>(count));
    pages = pages.subspan(count);
    at->offered += static_cast<std::uint32_t>(count);
    part.last = last && pages.empty();
    if (part.last) {
      part.states = std::exchange(states, {});
      part.aux_row = aux_row;
      at->last_sent = true;
    }
    offer_to_all(*at, part);
  } while (!pages.empty());
  advance(*at);
  return {};
}

void sender_rooms::abort(send_id id, std::string reason, failure_kind kind) {
  if (auto* at = find(id); at != nullptr && !at->has_ended())
    fail(*at, kind, std::move(reason));
}

void sender_rooms::clear(send_id id) {
  auto* at = find(id);
  if (at == nullptr)
    return;
  if (!at->has_ended())
    fail(*at, failure_kind::aborted, "prefill has given the room up");
  PEERCACHE_ASSERT(!leases_.stands(at->under));
  if (const auto current = newest_.find(at->number);
      current != newest_.end() && current->second == id) {
    newest_.erase(current);
    if (at->state == room_state::failed)
      remember_failed(*at);
  }
  changed_.erase(id);
  --states_[at->state];
  rooms_.erase(id);
}

void sender_rooms::abort_all(const std::string& reason) {
  for (auto& [id, at] : rooms_)
    if (!at.has_ended())
      fail(at, failure_kind::memory, reason);
}

room_state sender_rooms::poll(send_id id) const noexcept {
  const auto* at = find(id);
  return at == nullptr ? room_state::failed : at->state;
}

std::vector<send_id> sender_rooms::take_changes() {
  const auto changed = std::exchange(changed_, {});
  return {changed.begin(), changed.end()};
}

std::optional<room_failure> sender_rooms::failure(send_id id) const {
  const auto* at = find(id);
  if (at == nullptr || at->state != room_state::failed)
    return std::nullopt;
  return at->failure;
}

transfer_metric sender_rooms::metric(send_id id) const noexcept {
  const auto* at = find(id);
  return at == nullptr ? transfer_metric{} : at->metric;
}

// -- state changes of rooms

void sender_rooms::advance(room& at) {
  if (at.has_ended() || !at.all_have_joined())
    return;
  set_state(at, std::max(at.state, room_state::waiting_for_input));
  if (!at.pages)
    return;
  for (const auto& [process, each] : at.receivers)
    if (!each.said.dummy && each.said.page_count != *at.pages)
      return fail(at, failure_kind::misfit,
                  "prefill has " + std::to_string(*at.pages) + " pages and decode has allocated " +
                      std::to_string(each.said.page_count));
  if (at.last_sent && std::all_of(at.receivers.begin(), at.receivers.end(),
                                  [](const auto& each) { return each.second.done; }))
    end(at, room_state::success);
}

void sender_rooms::set_state(room& at, room_state state) {
  if (at.state == state)
    return;
  --states_[at.state];
  ++states_[state];
  at.state = state;
  changed_.insert(at.id);
}

void sender_rooms::offer_to_all(const room& at, const offered_pages& pages) {
  for (const auto& [process, each] : at.receivers)
    if (!each.said.dummy)
      outgoing_.push_back({each.peer, offer{at.number, each.said.id, at.under, pages}});
}

/// Ends the room; the lease is revoked before anybody can see the room's new state.
void sender_rooms::end(room& at, room_state state) {
  PEERCACHE_ASSERT(!at.has_ended());
  leases_.revoke(at.under);
  set_state(at, state);
}

void sender_rooms::fail(room& at, failure_kind kind, std::string reason) {
  end(at, room_state::failed);
  at.failure = {std::move(reason), kind};
  for (const auto& [process, each] : at.receivers)
    outgoing_.push_back({each.peer, handoff::abort{at.number, each.said.id, at.failure.reason,
                                                   at.failure.was_heard()}});
}

} // namespace peercache::handoff
