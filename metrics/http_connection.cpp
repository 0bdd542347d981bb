#include "metrics/http_connection.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <poll.h>
#include <string_view>
#include <utility>

namespace peercache::metrics {

namespace {

constexpr std::chrono::milliseconds end_patience{500};

constexpr std::string_view head_end = "\r\n\r\n";

bool is_for_later(ssize_t outcome) noexcept {
  return outcome < 0 && (errno == EAGAIN || errno == EINTR);
}

} // namespace

bool is_query(std::string_view head) noexcept {
  return head.starts_with("POST /query ") || head.starts_with("POST /query_by_hash ");
}

std::size_t content_length_of(std::string_view head) noexcept {
  constexpr std::string_view name = "\r\ncontent-length:";
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto found = std::search(head.begin(), head.end(), name.begin(), name.end(), same);
  auto rest = head.substr(static_cast<std::size_t>(found - head.begin()));
  rest.remove_prefix(std::min(rest.size(), name.size()));
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
  std::size_t bytes = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
  return bytes;
}

http_connection::http_connection(net::stream_socket socket, const patience& with, bodies taken,
                                 time_point now)
    : socket_(std::move(socket)), patience_(with), taken_(taken),
      state_(socket_.is_to_establish() ? state::greeting : state::reading),
      until_(now + with.head) {}

short http_connection::events() const noexcept {
  if (state_ == state::greeting)
    return socket_.awaited();
  if (state_ == state::waiting)
    return 0;
  return state_ == state::sending ? POLLOUT : POLLIN;
}

http_connection::state http_connection::advance(time_point now) {
  switch (state_) {
  case state::greeting:
    greet();
    break;
  case state::reading:
    receive();
    break;
  case state::sending:
    send(now);
    break;
  case state::ending:
    discard();
    break;
  case state::waiting: // A waiting connection polls for no event, so its socket has failed.
    state_ = state::over;
    break;
  case state::asked:
  case state::over:
    break;
  }
  return state_;
}

void http_connection::greet() {
  using step = net::stream_socket::step;
  const auto now = socket_.establish();
  if (now == step::established) {
    state_ = state::reading;
    receive();
  } else if (now == step::refused) {
    if (errno == EPROTO) // With any other errno the peer has hung up, as a probe of the port does.
      refusal_ = socket_.refusal();
    state_ = state::over;
  }
}

/// Receives until the socket has nothing more: poll(2) does not report bytes that TLS has decrypted
/// already.
void http_connection::receive() {
  std::array<char, 16384> piece;
  while (state_ == state::reading) {
    const auto got = socket_.receive(piece.data(), piece.size());
    if (is_for_later(got))
      return;
    in_.append(piece.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    if (const auto end = wanted_ == 0 ? in_.find(head_end) : std::string::npos;
        end != std::string::npos) {
      head_bytes_ = end + head_end.size();
      wanted_ = head_bytes_ + body_bytes();
    }
    if (wanted_ != 0 && in_.size() >= wanted_)
      state_ = state::asked;
    else if (got <= 0 || (wanted_ == 0 && in_.size() > head_bytes_max))
      state_ = state::over;
  }
}

/// Returns 0, and so no body is awaited, where the server refuses the request by its head: a body
/// that is too long, or, under `bodies::of_members`, a client without a member's certificate.
std::size_t http_connection::body_bytes() const noexcept {
  if (!is_query(head()) || (taken_ == bodies::of_members && !is_known()))
    return 0;
  const auto said = content_length_of(head());
  return said <= body_bytes_max ? said : 0;
}

void http_connection::wait(time_point now) {
  PEERCACHE_ASSERT(state_ == state::asked);
  in_ = {};
  state_ = state::waiting;
  until_ = now + patience_.query;
}

void http_connection::answer(std::string bytes, time_point now) {
  PEERCACHE_ASSERT(state_ == state::asked || state_ == state::waiting || is_taking_body());
  in_ = {};
  out_ = std::move(bytes);
  state_ = state::sending;
  until_ = now + patience_.send;
  send(now);
}

void http_connection::send(time_point now) {
  while (sent_ < out_.size()) {
    const auto done = socket_.send(out_.data() + sent_, out_.size() - sent_);
    if (is_for_later(done))
      return;
    if (done <= 0) {
      state_ = state::over;
      return;
    }
    sent_ += static_cast<std::size_t>(done);
    until_ = now + patience_.send;
  }
  // Only the sending side is closed here: closing the socket while received bytes are unread (the
  // body of a refused request) would discard the answer on its way.
  socket_.finish();
  state_ = state::ending;
  until_ = now + end_patience;
}

void http_connection::discard() {
  std::array<char, 4096> piece;
  const auto got = socket_.receive(piece.data(), piece.size());
  if (got <= 0 && !is_for_later(got))
    state_ = state::over;
}

} // namespace peercache::metrics
