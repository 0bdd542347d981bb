#include "actors/serving/lookup_connections.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "directory/wire.hpp"
#include "net/frame_channel.hpp"

#include <algorithm>

namespace peercache::actors {

namespace frames = net::frames;
using link::member_questions_open_max;
using link::read_question;

namespace {

/// Returns the bytes of a question and of the longest answer that it may get.
std::uint64_t bytes_of_question(std::size_t question_bytes) noexcept {
  constexpr auto answer_bytes_per_key =
      1 + limits::locations_per_key_max * directory::wire::location_bytes;
  return question_bytes + question_bytes / directory::wire::key_bytes * answer_bytes_per_key;
}
static_assert(std::uint64_t{2} * limits::batch_pages_max *
                      (directory::wire::key_bytes + 1 +
                       limits::locations_per_key_max * directory::wire::location_bytes) <=
                  lookup_connections::held_bytes_max,
              "one call asks for no more than half of what is held");

} // namespace

bool lookup_connections::add(handle from, time_point now) {
  if (connections_.size() >= connections_max)
    return false;
  auto& added = connections_[from];
  added.moved_at = now;
  return true;
}

bool lookup_connections::greeted(handle which) const {
  const auto found = connections_.find(which);
  return found != connections_.end() && found->second.greeted;
}

std::vector<lookup_connections::handle> lookup_connections::overdue(time_point now) const {
  std::vector<handle> late;
  for (const auto& [which, known] : connections_) {
    const auto patience = known.greeted ? idle_patience : greeting_patience;
    if (now - known.moved_at >= patience)
      late.push_back(which);
  }
  return late;
}

bool lookup_connections::some_owe_greeting() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& entry) { return !entry.second.greeted; });
}

std::size_t lookup_connections::room_of(handle which) const {
  const auto found = connections_.find(which);
  return found != connections_.end() ? found->second.received.capacity() : 0;
}

void lookup_connections::remove(handle gone) {
  auto found = connections_.find(gone);
  if (found == connections_.end())
    return;
  release(found->second, found->second.held_bytes);
  PEERCACHE_ASSERT(found->second.held_bytes == 0);
  connections_.erase(found);
  PEERCACHE_ASSERT(!connections_.empty() ||
                   total_bytes_ == 0); // Bytes of no connection would stay counted.
}

void lookup_connections::passed_on(handle which) {
  const auto found = connections_.find(which);
  PEERCACHE_ASSERT(found != connections_.end() && !found->second.asks_member);
  ++found->second.open;
}

bool lookup_connections::waits(handle which) const {
  const auto found = connections_.find(which);
  return found != connections_.end() && found->second.open > 0;
}

void lookup_connections::hold(connection& whose, std::uint64_t bytes) noexcept {
  whose.held_bytes += bytes;
  total_bytes_ += bytes;
}

void lookup_connections::release(connection& whose, std::uint64_t bytes) noexcept {
  PEERCACHE_ASSERT(whose.held_bytes >= bytes && total_bytes_ >= bytes);
  whose.held_bytes -= bytes;
  total_bytes_ -= bytes;
}

bool lookup_connections::asks_member(handle which) const {
  const auto found = connections_.find(which);
  return found != connections_.end() && found->second.asks_member;
}

bool lookup_connections::take_greeting(connection& known, std::string_view& rest,
                                       time_point now) const {
  if (rest.size() < frames::greeting_bytes)
    return greeting_.starts_with(rest) || questions_greeting_.starts_with(rest);
  known.asks_member = rest.starts_with(questions_greeting_);
  if (!known.asks_member && !rest.starts_with(greeting_))
    return false;
  known.greeted = true;
  known.moved_at = now;
  rest.remove_prefix(frames::greeting_bytes);
  return true;
}

/// Counts a question that has come. False: the question is malformed, or one too many.
bool lookup_connections::take_question(connection& known, std::string_view payload) {
  if (!known.asks_member) {
    hold(known, bytes_of_question(payload.size()));
    return true;
  }
  const auto asked = read_question(payload);
  if (!asked || ++known.open > member_questions_open_max)
    return false;
  hold(known, held_bytes_of(asked->kind, asked->body.size()));
  return true;
}

bool lookup_connections::receive(handle from, std::string_view bytes, time_point now,
                                 std::vector<std::string>& questions) {
  auto found = connections_.find(from);
  if (found == connections_.end())
    return false;
  auto& known = found->second;
  known.received.append(bytes);
  hold(known, bytes.size());
  std::string_view rest = known.received;
  if (!known.greeted && !take_greeting(known, rest, now))
    return false;
  if (!known.greeted)
    return true;
  std::string_view payload;
  bool too_long = false;
  while (frames::take_frame(rest, payload, too_long)) {
    if (!take_question(known, payload))
      return false;
    questions.emplace_back(payload);
    known.moved_at = now;
  }
  const auto done = known.received.size() - rest.size();
  release(known, done);
  known.received.erase(0, done);
  if (done > 0)
    give_back_room(known.received);
  return !too_long && known.held_bytes <= held_bytes_max;
}

bool lookup_connections::settle(handle which, std::uint64_t question_bytes,
                                std::size_t frame_bytes) {
  auto found = connections_.find(which);
  if (found == connections_.end())
    return false;
  hold(found->second, frame_bytes);
  release(found->second, question_bytes);
  // Each question is answered once. A look-up that is answered at once was never passed on.
  PEERCACHE_ASSERT(found->second.open > 0 || !found->second.asks_member);
  if (found->second.open > 0)
    --found->second.open;
  return true;
}

bool lookup_connections::answered(handle which, std::size_t question_bytes,
                                  std::size_t frame_bytes) {
  return settle(which, bytes_of_question(question_bytes), frame_bytes);
}

bool lookup_connections::member_answered(handle which, member_question kind, std::size_t body_bytes,
                                         std::size_t frame_bytes) {
  return settle(which, held_bytes_of(kind, body_bytes), frame_bytes);
}

void lookup_connections::taken(handle by, std::size_t bytes, time_point now) {
  const auto found = connections_.find(by);
  if (found == connections_.end())
    return;
  release(found->second, bytes);
  found->second.moved_at = now;
}

std::optional<lookup_connections::handle> lookup_connections::one_too_many() const {
  if (total_bytes_ <= total_bytes_max)
    return std::nullopt;
  PEERCACHE_ASSERT(!connections_.empty()); // Some connection holds the bytes.
  return std::max_element(connections_.begin(), connections_.end(),
                          [](const auto& one, const auto& other) {
                            return one.second.held_bytes < other.second.held_bytes;
                          })
      ->first;
}

} // namespace peercache::actors
