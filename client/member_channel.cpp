#include "client/member_channel.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::client {

using link::member_question;

namespace {

/// Bytes of questions that may be open at once: half of what the member holds for a connection.
constexpr std::uint64_t open_bytes_max = 2u << 20;
constexpr std::size_t queue_bytes_max = 4u << 20;
/// Bytes that are received in one step, so that a channel leaves room for the others.
constexpr std::size_t receive_bytes_max = 4u << 20;

} // namespace

member_channel::member_channel(std::string name, net::stream_socket socket,
                               std::string_view greeting, time_point now)
    : name_(std::move(name)), stream_(std::move(socket), queue_bytes_max), begun_at_(now) {
  stream_.push_greeting(greeting);
  say_hello(now);
}

void member_channel::say_hello(time_point now) {
  hello_ = ++last_number_;
  hello_at_ = now;
  stream_.push(link::encode_question({*hello_, member_question::hello, {}}),
               net::frames::payload_bytes_max);
}

void member_channel::ask(member_request request) {
  if (waiting_.size() >= waiting_max || waiting_bytes_ + request.body.size() > waiting_bytes_max)
    return request.take({question_end::not_sent, {}});
  next_end_ = std::min(next_end_, request.until);
  waiting_bytes_ += request.body.size();
  waiting_.push_back(std::move(request));
}

/// Ends the questions whose time is over. One that was sent keeps its number and its bytes until
/// the member answers, which counts both until then.
void member_channel::end_overdue(time_point now) {
  if (now < next_end_)
    return;
  next_end_ = time_point::max();
  for (auto& request : std::exchange(waiting_, {})) {
    if (now < request.until) {
      next_end_ = std::min(next_end_, request.until);
      waiting_.push_back(std::move(request));
      continue;
    }
    waiting_bytes_ -= request.body.size();
    request.take({question_end::not_sent, {}});
  }
  for (auto& [number, asked] : open_)
    if (asked.take && now < asked.until)
      next_end_ = std::min(next_end_, asked.until);
    else if (asked.take)
      std::exchange(asked.take, nullptr)({question_end::late, {}});
}

void member_channel::send_waiting() {
  while (stands_ && !waiting_.empty()) {
    auto& next = waiting_.front();
    const auto held = link::held_bytes_of(next.kind, next.body.size());
    // One place is that of the hello.
    if (open_.size() + 1 >= link::member_questions_open_max ||
        (!open_.empty() && open_bytes_ + held > open_bytes_max))
      return;
    auto request = std::move(next);
    waiting_.pop_front();
    waiting_bytes_ -= request.body.size();
    if (!stream_.push(link::encode_question({++last_number_, request.kind, request.body}),
                      net::frames::payload_bytes_max)) {
      request.take({question_end::not_sent, {}});
      continue;
    }
    open_bytes_ += held;
    open_[last_number_] = {held, request.until, std::move(request.take)};
  }
}

bool member_channel::take_answer(std::string_view payload) {
  const auto answer = link::read_answer(payload);
  if (!answer)
    return false;
  if (hello_ && answer->number == *hello_) {
    if (stream_.under_tls() && stream_.peer_name() != name_)
      return false;
    hello_.reset();
    stands_ = true;
    return true;
  }
  const auto asked = open_.find(answer->number);
  if (asked == open_.end())
    return false; // The member has broken the protocol.
  open_bytes_ -= asked->second.held_bytes;
  const auto take = std::move(asked->second.take);
  open_.erase(asked);
  if (take)
    take({question_end::answered, std::string(answer->body)});
  return true;
}

bool member_channel::receive() {
  stream_.receive(receive_bytes_max);
  while (const auto payload = stream_.take(net::frames::payload_bytes_max))
    if (!take_answer(*payload))
      return false;
  return !stream_.too_long() && !stream_.ended();
}

bool member_channel::is_late(time_point now) const noexcept {
  if (!stands_ && !stream_.has_sent() && now >= begun_at_ + connect_patience)
    return true;
  return hello_ && now >= hello_at_ + hello_patience;
}

bool member_channel::step(time_point now) {
  do {
    if (!receive())
      return false;
    if (!hello_ && now >= hello_at_ + hello_every)
      say_hello(now);
    end_overdue(now);
    send_waiting();
    stream_.flush();
  } while (stream_.wants_turn());
  return !stream_.ended() && !is_late(now);
}

member_channel::time_point member_channel::due() const noexcept {
  if (!stands_ && !stream_.has_sent())
    return std::min(next_end_, begun_at_ + connect_patience);
  return std::min(next_end_, hello_at_ + (hello_ ? hello_patience : hello_every));
}

void member_channel::end() {
  for (auto& [number, asked] : std::exchange(open_, {}))
    if (asked.take)
      asked.take({});
  for (auto& request : std::exchange(waiting_, {}))
    request.take({});
  open_bytes_ = 0;
  waiting_bytes_ = 0;
}

} // namespace peercache::client
