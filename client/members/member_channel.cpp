#include "client/members/member_channel.hpp"

#include "client/members/promote_plan.hpp"
#include "common/beat_time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace peercache::client {

using link::member_question;

namespace {

constexpr std::size_t queue_bytes_max = 4u << 20;
/// Most bytes that one step receives, so that other channels have their turn.
constexpr std::size_t receive_bytes_max = 4u << 20;

/// The body with which a question is sent: a promote may take what is left of its time, less the
/// answer's way.
std::string body_at(const member_request& request, member_channel::time_point now) {
  if (request.kind != member_question::promote)
    return request.body;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(request.until - now);
  const auto within =
      std::clamp<std::int64_t>(promote_plan::patience(left).count(), 0, link::promote_ms_max);
  return link::promote_body(static_cast<std::uint32_t>(within), link::promote_pages(request.body));
}

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

member_channel::time_point member_channel::next_hello() const noexcept {
  return next_beat(hello_at_, hello_every);
}

member_channel::lane& member_channel::lane_of(member_question kind) noexcept {
  switch (kind) {
  case member_question::look_up:
  case member_question::promote:
  case member_question::warm:
    return heavy_;
  case member_question::view:
    return views_;
  default:
    return light_;
  }
}

void member_channel::ask(member_request request) {
  auto& of = lane_of(request.kind);
  if (of.waiting.size() >= waiting_max ||
      of.waiting_bytes + request.body.size() > waiting_bytes_max)
    return request.take({question_end::not_sent, {}});
  next_end_ = std::min(next_end_, request.until);
  of.waiting_bytes += request.body.size();
  of.waiting.push_back(std::move(request));
}

void member_channel::end_overdue_waiting(lane& of, time_point now) {
  for (auto& request : std::exchange(of.waiting, {})) {
    if (now < request.until) {
      next_end_ = std::min(next_end_, request.until);
      of.waiting.push_back(std::move(request));
      continue;
    }
    of.waiting_bytes -= request.body.size();
    request.take({question_end::not_sent, {}});
  }
}

/// Ends the questions whose time is over. A question that was sent keeps its number and its bytes
/// until the member answers, because the member counts both until then.
void member_channel::end_overdue(time_point now) {
  if (now < next_end_)
    return;
  next_end_ = time_point::max();
  end_overdue_waiting(views_, now);
  end_overdue_waiting(light_, now);
  end_overdue_waiting(heavy_, now);
  for (auto& [number, asked] : open_)
    if (asked.take && now < asked.until)
      next_end_ = std::min(next_end_, asked.until);
    else if (asked.take)
      std::exchange(asked.take, nullptr)({question_end::late, {}});
}

void member_channel::send_waiting(lane& of, time_point now) {
  while (stands_ && !of.waiting.empty()) {
    const auto& next = of.waiting.front();
    const auto held = link::held_bytes_of(next.kind, next.body.size());
    if (!of.has_room(held))
      return;
    auto request = std::move(of.waiting.front());
    of.waiting.pop_front();
    of.waiting_bytes -= request.body.size();
    if (!stream_.push(link::encode_question({++last_number_, request.kind, body_at(request, now)}),
                      net::frames::payload_bytes_max)) {
      request.take({question_end::not_sent, {}});
      continue;
    }
    ++of.open;
    of.open_bytes += held;
    open_[last_number_] = {&of, held, request.until, std::move(request.take)};
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
    pass_ = link::read_pass(answer->body);
    return true;
  }
  const auto asked = open_.find(answer->number);
  if (asked == open_.end())
    return false; // The member has broken the protocol.
  --asked->second.of->open;
  asked->second.of->open_bytes -= asked->second.held_bytes;
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
    if (!hello_ && now >= next_hello())
      say_hello(now);
    end_overdue(now);
    send_waiting(views_, now);
    send_waiting(light_, now);
    send_waiting(heavy_, now);
    stream_.flush();
  } while (stream_.wants_turn());
  if (!is_late(now))
    return !stream_.ended();
  // Answers may lie in the socket though no event has told of them: this process may have stood
  // still, and a poll reports few connections at a time. These answers count.
  stream_.look_again();
  return receive() && !is_late(now);
}

member_channel::time_point member_channel::due() const noexcept {
  if (!stands_ && !stream_.has_sent())
    return std::min(next_end_, begun_at_ + connect_patience);
  return std::min(next_end_, hello_ ? hello_at_ + hello_patience : next_hello());
}

void member_channel::end() {
  for (auto& [number, asked] : std::exchange(open_, {}))
    if (asked.take)
      asked.take({});
  for (auto* of : {&views_, &light_, &heavy_}) {
    for (auto& request : std::exchange(of->waiting, {}))
      request.take({});
    of->waiting_bytes = 0;
    of->open = 0;
    of->open_bytes = 0;
  }
}

} // namespace peercache::client
