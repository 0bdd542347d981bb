#include "handoff/transfer_calls.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace peercache::handoff {
namespace {

std::string text_of(const memory_range& memory) {
  char text[64];
  std::snprintf(text, sizeof text, "%llu bytes at 0x%llx",
                static_cast<unsigned long long>(memory.bytes),
                static_cast<unsigned long long>(memory.address));
  return text;
}

std::uint32_t milliseconds_until(std::chrono::steady_clock::time_point deadline,
                                 std::chrono::steady_clock::time_point now) noexcept {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(left, 1, std::numeric_limits<std::uint32_t>::max()));
}

} // namespace

// -- calls of the engine

result<void> transfer_calls::check(const transfer_call& call) const {
  for (const auto& piece : call.pieces) {
    if (!piece.source_range().possible() || !piece.destination_range().possible())
      return {errc::invalid_argument,
              "no process has this memory: " + text_of(piece.source_range()) + ", to be moved to " +
                  text_of(piece.destination_range())};
    const auto own = call.direction == transfer_direction::write ? piece.source_range()
                                                                 : piece.destination_range();
    if (!memory_.covers(own))
      return {errc::invalid_argument,
              text_of(own) + " are not in one piece of memory that is registered here"};
  }
  return {};
}

result<call_id> transfer_calls::begin(transfer_call call) {
  if (calls_.size() >= options_.calls_max)
    return {errc::refused, std::to_string(calls_.size()) +
                               " calls are open, or their results were not asked for: no more"};
  std::erase_if(call.pieces, [](const transfer_piece& each) { return each.bytes == 0; });
  if (auto possible = check(call); !possible)
    return possible.error();
  const call_id id{next_call_.value++};
  auto& made = calls_[id];
  made.direction = call.direction;
  made.with = call.with;
  made.deadline = call.deadline;
  deadlines_.emplace(call.deadline, id);
  ++open_;
  add_transfers(id, call);
  return id;
}

/// Cuts the call into transfers. A call without pieces is one empty transfer, whose answer says
/// that the peer lives.
void transfer_calls::add_transfers(call_id id, transfer_call& call) {
  auto& with = connections_[call.with];
  auto at = call.pieces.begin();
  do {
    const auto count =
        std::min<std::ptrdiff_t>(call.pieces.end() - at, limits::transfer_pieces_max);
    const transfer_id name{next_transfer_.value++};
    auto& made = transfers_[name];
    made.call = id;
    made.pieces.assign(at, at + count);
    calls_.at(id).transfers.insert(name);
    with.waiting.push_back(name);
    with.all.insert(name);
    at += count;
  } while (at != call.pieces.end());
  may_start_ = true;
}

call_state transfer_calls::state(call_id id) const noexcept {
  const auto found = calls_.find(id);
  return found == calls_.end() ? call_state::failed : found->second.state;
}

std::string transfer_calls::failure(call_id id) const {
  const auto found = calls_.find(id);
  return found == calls_.end() ? std::string() : found->second.failure;
}

void transfer_calls::cancel(call_id id, const std::string& reason) {
  fail(id, call_state::failed, reason);
}

void transfer_calls::cancel_all(const std::string& reason) {
  std::vector<call_id> all;
  for (const auto& [id, call] : calls_)
    all.push_back(id);
  for (const auto id : all)
    fail(id, call_state::failed, reason);
}

bool transfer_calls::is_local_to(const transfer& at, const memory_range& memory) const {
  const bool writes = calls_.at(at.call).direction == transfer_direction::write;
  return std::any_of(at.pieces.begin(), at.pieces.end(), [&](const auto& each) {
    return (writes ? each.source_range() : each.destination_range()).overlaps(memory);
  });
}

void transfer_calls::memory_leaves(const memory_range& memory) {
  std::set<call_id> touched;
  for (const auto& [id, at] : transfers_)
    if (is_local_to(at, memory))
      touched.insert(at.call);
  for (const auto id : touched)
    fail(id, call_state::failed, text_of(memory) + " were unregistered during the call");
}

void transfer_calls::forget(call_id id) {
  const auto found = calls_.find(id);
  if (found == calls_.end())
    return;
  if (found->second.state == call_state::open)
    found->second.forgotten = true;
  else
    calls_.erase(found);
}

// -- connections to peers

std::vector<worker_address> transfer_calls::take_dials() {
  std::vector<worker_address> all;
  if (!may_start_)
    return all;
  for (auto& [address, with] : connections_)
    if (!with.peer && !with.dialing && !with.waiting.empty()) {
      with.dialing = true;
      all.push_back(address);
    }
  return all;
}

void transfer_calls::dialed(const worker_address& address, peer_id peer) {
  auto& with = connections_.at(address);
  with.dialing = false;
  with.peer = peer;
  addresses_.insert_or_assign(peer, address);
}

void transfer_calls::unreachable(const worker_address& address, const std::string& reason) {
  connections_.at(address).dialing = false;
  lose(address, reason);
}

void transfer_calls::joined(peer_id peer) {
  const auto found = addresses_.find(peer);
  if (found == addresses_.end())
    // The peer has dialed this worker. Calls use only connections that this worker has dialed.
    return;
  connections_.at(found->second).joined = true;
  may_start_ = true;
}

void transfer_calls::lost(peer_id peer, const std::string& reason) {
  const auto found = addresses_.find(peer);
  if (found == addresses_.end())
    return;
  const auto address = found->second;
  addresses_.erase(found);
  silent_.erase(peer);
  auto& with = connections_.at(address);
  with.peer.reset();
  with.joined = false;
  lose(address, reason);
}

std::vector<peer_id> transfer_calls::take_silent() {
  const auto all = std::exchange(silent_, {});
  return {all.begin(), all.end()};
}

/// Fails all calls to a peer that cannot be reached. Transfers that wait for the peer's answer to a
/// stop end as well.
void transfer_calls::lose(const worker_address& address, const std::string& reason) {
  const auto& with = connections_.at(address);
  const std::vector<transfer_id> all(with.all.begin(), with.all.end());
  for (const auto id : all) {
    const auto at = transfers_.find(id);
    if (at == transfers_.end())
      continue; // The transfer has already ended, because another transfer of its call has failed.
    fail(at->second.call, call_state::failed, reason);
    const auto still = transfers_.find(id);
    if (still != transfers_.end() && still->second.at == phase::stopping)
      end(id);
  }
  drop_if_unused(address);
}

/// Forgets a peer that has neither a connection nor transfers, including transfers that wait until
/// their reads are cancelled.
void transfer_calls::drop_if_unused(const worker_address& address) {
  const auto found = connections_.find(address);
  if (found == connections_.end())
    return;
  const auto& with = found->second;
  if (!with.peer && !with.dialing && with.all.empty())
    connections_.erase(found);
}

// -- answers of peers, and ends of reads

bool transfer_calls::lent(peer_id peer, const transfer_lent& said) {
  const auto found = transfers_.find(said.id);
  if (found == transfers_.end())
    return true; // The transfer has ended in the meantime, and the peer was told to stop.
  auto& [id, at] = *found;
  const auto& call = calls_.at(at.call);
  if (at.peer != peer || at.at != phase::asked || call.direction != transfer_direction::read)
    return false;
  at.at = phase::reading;
  at.read = reads_.start({peer, said.under, call.deadline, at.pieces});
  reading_.emplace(*at.read, id);
  return true;
}

bool transfer_calls::ended(peer_id peer, const transfer_ended& said) {
  const auto found = transfers_.find(said.id);
  if (found == transfers_.end())
    return true; // The peer refused a read before the stop of that read reached it.
  auto& at = found->second;
  const bool writes = calls_.at(at.call).direction == transfer_direction::write;
  const bool expected = at.at == phase::asked || (writes && at.at == phase::stopping);
  if (at.peer != peer || !expected || (!writes && said.good))
    return false;
  revoke(at);
  at.at = phase::answered;
  if (!said.good)
    fail(at.call, call_state::failed, "the other worker says: " + said.reason);
  if (transfers_.contains(said.id))
    end(said.id);
  return true;
}

bool transfer_calls::read_finished(const transfer_reads::finished& read) {
  const auto found = reading_.find(read.id);
  if (found == reading_.end())
    return false;
  const auto id = found->second;
  reading_.erase(found);
  auto& at = transfers_.at(id);
  tell_stop(id, at);
  at.at = phase::answered;
  if (!read.good)
    fail(at.call, call_state::failed, "the bytes could not be read: " + read.reason);
  if (transfers_.contains(id))
    end(id);
  return true;
}

// -- the course of transfers

void transfer_calls::turn(time_point now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now)
    fail(deadlines_.begin()->second, call_state::timed_out, "the call has taken too long");
  watch_answers(now);
  if (!std::exchange(may_start_, false))
    return;
  for (auto& [address, with] : connections_)
    start(with, now);
}

/// Notes peers that have not answered `transfer_stop` within `answer_max`. That time begins with
/// the turn after the stop, because this process may have stood still before that turn.
void transfer_calls::watch_answers(time_point now) {
  for (const auto id : std::exchange(stopped_, {}))
    answers_due_.emplace_back(now + options_.answer_max, id);
  while (!answers_due_.empty() && answers_due_.front().first <= now) {
    const auto found = transfers_.find(answers_due_.front().second);
    if (found != transfers_.end())
      silent_.insert(*found->second.peer);
    answers_due_.pop_front();
  }
}

transfer_calls::time_point transfer_calls::deadline() const noexcept {
  return deadlines_.empty() ? time_point::max() : deadlines_.begin()->first;
}

void transfer_calls::start(connection& with, time_point now) {
  while (with.joined && with.open < options_.open_per_peer_max && !with.waiting.empty()) {
    const auto id = with.waiting.front();
    const auto found = transfers_.find(id);
    if (found != transfers_.end() && !ask(id, found->second, with, now)) {
      may_start_ = true;
      return;
    }
    with.waiting.pop_front();
  }
}

/// Asks the peer for a transfer. False when no lease is free for a write.
bool transfer_calls::ask(transfer_id id, transfer& at, connection& with, time_point now) {
  const auto& call = calls_.at(at.call);
  if (call.direction == transfer_direction::write) {
    at.given = leases_.take(id.value);
    if (!at.given)
      return false;
    messages_.push_back(
        {*with.peer,
         transfer_write{id, *at.given, milliseconds_until(call.deadline, now), at.pieces}});
  } else {
    transfer_read wanted{id, {}};
    for (const auto& piece : at.pieces)
      wanted.ranges.push_back(piece.source_range());
    messages_.push_back({*with.peer, std::move(wanted)});
  }
  at.at = phase::asked;
  at.peer = with.peer;
  ++with.open;
  return true;
}

/// Ends the call early; if the call has failed before, its first state and reason stay.
void transfer_calls::fail(call_id id, call_state end, const std::string& reason) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || found->second.state != call_state::open ||
      found->second.end != call_state::done)
    return;
  auto& call = found->second;
  call.end = end;
  call.failure = reason;
  deadlines_.erase({call.deadline, id});
  const std::vector<transfer_id> all(call.transfers.begin(), call.transfers.end());
  for (const auto each : all)
    stop(each);
}

void transfer_calls::stop(transfer_id id) {
  auto& at = transfers_.at(id);
  const bool writes = calls_.at(at.call).direction == transfer_direction::write;
  if (at.at == phase::stopping)
    return;
  if (at.at == phase::reading)
    return reads_.cancel(*at.read, "the call has ended");
  const bool answer_awaited = at.at == phase::asked && writes;
  if (at.at == phase::asked)
    tell_stop(id, at);
  revoke(at);
  if (!answer_awaited || !addresses_.contains(*at.peer))
    return end(id);
  at.at = phase::stopping;
  stopped_.push_back(id);
}

void transfer_calls::tell_stop(transfer_id id, const transfer& at) {
  if (at.peer && addresses_.contains(*at.peer))
    messages_.push_back({*at.peer, transfer_stop{id}});
}

void transfer_calls::revoke(transfer& at) noexcept {
  if (at.given)
    leases_.revoke(*std::exchange(at.given, std::nullopt));
}

void transfer_calls::end(transfer_id id) {
  const auto found = transfers_.find(id);
  const auto id_of_call = found->second.call;
  auto& call = calls_.at(id_of_call);
  auto& with = connections_.at(call.with);
  if (found->second.at != phase::waiting)
    --with.open;
  with.all.erase(id);
  transfers_.erase(found);
  may_start_ = true;
  drop_if_unused(call.with);
  call.transfers.erase(id);
  settle(id_of_call);
}

void transfer_calls::settle(call_id id) {
  const auto found = calls_.find(id);
  auto& call = found->second;
  if (!call.transfers.empty())
    return;
  deadlines_.erase({call.deadline, id});
  call.state = call.end;
  --open_;
  has_ended_ = true;
  if (call.forgotten)
    calls_.erase(found);
}

} // namespace peercache::handoff
