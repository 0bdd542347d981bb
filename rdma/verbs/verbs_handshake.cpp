#include "rdma/verbs/verbs_handshake.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/trivial_bytes.hpp"

#include <cerrno>
#include <cstring>

namespace peercache::rdma {
verbs_handshake::verbs_handshake(net::stream_socket socket, const verbs_hello& greeting)
    : socket_(std::move(socket)), inc_(greeting.inc), service_(greeting.service) {
  append(greeting);
}

template <class T>
void verbs_handshake::append(const T& message) {
  out_.resize(out_.size() + sizeof message);
  std::memcpy(out_.data() + out_.size() - sizeof message, &message, sizeof message);
}

bool verbs_handshake::broken(loss_reason why) noexcept {
  why_ = why;
  state_ = state::broken;
  return false;
}

void verbs_handshake::on_events(std::uint32_t events) noexcept {
  const bool hung_up = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  readable_ |= hung_up || (events & EPOLLIN) != 0;
  writable_ |= hung_up || (events & EPOLLOUT) != 0;
}

verbs_handshake::state verbs_handshake::step() {
  using net_step = net::stream_socket::step;
  if (state_ == state::connecting && writable_) {
    const auto at = socket_.establish();
    if (at == net_step::refused)
      broken(loss_reason::not_connected);
    else if (at == net_step::established)
      state_ = state::greeting;
  }
  if (state_ == state::connecting || state_ == state::broken)
    return state_;
  if (flush())
    receive();
  return state_;
}

void verbs_handshake::ready() {
  PEERCACHE_ASSERT(state_ == state::answered);
  state_ = state::open;
  append(verbs_ready{});
}

bool verbs_handshake::flush() {
  while (writable_ && out_sent_ < out_.size()) {
    const auto sent = socket_.send(out_.data() + out_sent_, out_.size() - out_sent_);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN)
      writable_ = false;
    else if (sent < 0)
      return broken(state_ == state::greeting ? loss_reason::not_connected : loss_reason::closed);
    else
      out_sent_ += static_cast<std::size_t>(sent);
  }
  return true;
}

bool verbs_handshake::receive() {
  while (readable_) {
    const auto got = socket_.receive(in_.data() + in_have_, in_.size() - in_have_);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && errno == EAGAIN) {
      readable_ = false;
      return true;
    }
    if (got <= 0)
      return broken(state_ == state::greeting ? loss_reason::not_connected : loss_reason::closed);
    in_have_ += static_cast<std::size_t>(got);
    if (!take_messages())
      return false;
  }
  return true;
}

bool verbs_handshake::take_messages() {
  std::size_t at = 0;
  if (state_ == state::greeting) {
    if (in_have_ < sizeof(verbs_answer))
      return true;
    if (!take_answer(read_as<verbs_answer>(in_.data())))
      return false;
    at = sizeof(verbs_answer);
  }
  for (; in_have_ - at >= sizeof(region_chunk); at += sizeof(region_chunk))
    if (!region_.add(read_as<region_chunk>(in_.data() + at)))
      return broken(loss_reason::violation);
  std::memmove(in_.data(), in_.data() + at, in_have_ - at);
  in_have_ -= at;
  return true;
}

bool verbs_handshake::take_answer(const verbs_answer& answer) {
  if (answer.magic != verbs_answer_magic || answer.verdict > verbs_verdict::busy)
    return broken(loss_reason::violation);
  const bool other = answer.verdict == verbs_verdict::accepted && answer.inc != inc_ &&
                     guard_on(guard::incarnation);
  if (other || answer.verdict == verbs_verdict::other_incarnation)
    return broken(loss_reason::other_incarnation);
  if (answer.verdict != verbs_verdict::accepted || answer.version != verbs_wire_version)
    return broken(loss_reason::not_accepted);
  if (!well_formed(answer) || answer.service != service_)
    return broken(loss_reason::violation);
  answer_ = answer;
  region_ = remote_region(answer);
  state_ = state::answered;
  return true;
}

} // namespace peercache::rdma
