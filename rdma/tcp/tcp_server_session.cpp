#include "rdma/tcp/tcp_server_session.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/trivial_bytes.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

namespace peercache::rdma {

namespace {

constexpr std::size_t pieces_per_send_max = 1 + request_pages_max;
static_assert(pieces_per_send_max <= IOV_MAX);
static_assert(hello_magic != verbs_hello_magic && sizeof(hello) <= sizeof(verbs_hello),
              "a hello of either protocol is told from the other, and has room");

/// Whether the first `have` bytes can be the beginning of a hello with this magic.
bool begins_with(std::span<const std::byte> bytes, std::size_t have, std::uint32_t magic) noexcept {
  return std::memcmp(bytes.data(), &magic, std::min(have, sizeof magic)) == 0;
}

} // namespace

tcp_server_session::tcp_server_session(tcp_server_state& shared, net::unique_fd fd,
                                       clock::time_point now)
    : shared_(shared), fd_(std::move(fd)), moved_at_(now) {}

tcp_server_session::~tcp_server_session() {
  fd_.reset();
  for (auto& page : pages_)
    release(page);
}

void tcp_server_session::on_events(std::uint32_t events) noexcept {
  hung_up_ |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  readable_ |= hung_up_ || (events & EPOLLIN) != 0;
  writable_ |= hung_up_ || (events & EPOLLOUT) != 0;
}

bool tcp_server_session::overdue(clock::time_point now) const noexcept {
  const auto quiet = now - moved_at_;
  const auto& options = shared_.options;
  if (phase_ != phase::serving)
    return quiet >= options.hello_timeout;
  return quiet >= (sending() ? options.send_timeout : options.idle_timeout);
}

tcp_server_session::progress tcp_server_session::step(clock::time_point now,
                                                      std::size_t bytes_max) {
  auto budget = bytes_max;
  const auto sent_before = answer_bytes_sent_;
  const auto received_before = in_end_ - in_begin_;
  bool took = false;
  for (;;) {
    if (!send(budget))
      return progress::ended;
    if (sending() || budget == 0)
      break;
    if (phase_ == phase::refusing)
      return progress::ended;
    const auto end_before = in_end_;
    if (!receive() || !(phase_ == phase::greeting ? take_hello() : take_request()))
      return progress::ended;
    if (phase_ == phase::given_away)
      return progress::given_away;
    if (!sending() && in_end_ == end_before)
      break;
    took = true;
  }
  // The clock of a session that has not said its whole hello is not set back, so that a hello which
  // trickles in cannot outlast `hello_timeout`.
  if (phase_ != phase::greeting &&
      (took || answer_bytes_sent_ != sent_before || in_end_ - in_begin_ != received_before))
    moved_at_ = now;
  if (out_of_pin_room_)
    return progress::wants_pin_room;
  // A peer that closed its side still gets the answer being sent; then the session ends.
  if (ended_ && !sending())
    return progress::ended;
  return took || budget != bytes_max ? progress::moved : progress::blocked;
}

bool tcp_server_session::receive() {
  if (!readable_ || ended_)
    return true;
  std::byte* to = hello_.data();
  std::size_t room = hello_bytes() - in_end_;
  if (phase_ == phase::serving) {
    if (in_begin_ != 0) {
      std::memmove(in_->data(), in_->data() + in_begin_, in_end_ - in_begin_);
      in_end_ -= std::exchange(in_begin_, 0);
    }
    to = in_->data();
    room = in_->size() - in_end_;
  }
  if (room == 0)
    return true;
  const auto got = ::recv(fd_.get(), to + in_end_, room, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    readable_ = errno == EINTR;
    return true;
  }
  if (got < 0)
    return false;
  ended_ = got == 0;
  in_end_ += static_cast<std::size_t>(got);
  if (static_cast<std::size_t>(got) < room && !hung_up_)
    readable_ = false;
  return true;
}

std::size_t tcp_server_session::hello_bytes() const noexcept {
  const bool verbs =
      in_end_ >= sizeof verbs_hello_magic && begins_with(hello_, in_end_, verbs_hello_magic);
  return verbs ? sizeof(verbs_hello) : sizeof(hello);
}

bool tcp_server_session::take_hello() {
  // Garbage is recognized by its first bytes: the session does not wait for the length of a hello.
  const bool tcp = begins_with(hello_, in_end_, hello_magic);
  if (!tcp && !begins_with(hello_, in_end_, verbs_hello_magic))
    return false;
  if (in_end_ < hello_bytes())
    return true;
  if (tcp)
    answer_hello();
  else if (shared_.options.on_verbs_hello)
    phase_ = phase::given_away;
  else
    answer_verbs_hello();
  return true;
}

verbs_hello tcp_server_session::verbs_greeting() const noexcept {
  PEERCACHE_ASSERT(phase_ == phase::given_away); // Before that it may not be whole.
  verbs_hello greeting;
  std::memcpy(&greeting, hello_.data(), sizeof greeting);
  return greeting;
}

void tcp_server_session::answer_verbs_hello() {
  verbs_answer answer;
  answer.verdict = verbs_verdict::no_device;
  answer.inc = shared_.options.inc;
  phase_ = phase::refusing;
  in_begin_ = in_end_ = 0;
  head_.clear();
  append_bytes(head_, answer);
  head_sent_ = 0;
}

void tcp_server_session::answer_hello() {
  hello greeting;
  std::memcpy(&greeting, hello_.data(), sizeof greeting);
  hello_answer answer;
  answer.verdict = judge(greeting, shared_.cluster, shared_.options.inc);
  answer.inc = shared_.options.inc;
  const bool accepted = answer.verdict == hello_verdict::accepted;
  phase_ = accepted ? phase::serving : phase::refusing;
  if (accepted)
    in_ = std::make_unique<std::array<std::byte, in_bytes_max>>();
  in_begin_ = in_end_ = 0;
  if (!shared_.options.faults.mute_hello) {
    head_.clear();
    append_bytes(head_, answer);
    head_sent_ = 0;
  }
}

bool tcp_server_session::take_request() {
  out_of_pin_room_ = false;
  const auto have = in_end_ - in_begin_;
  request_header header;
  if (have < sizeof header)
    return true;
  std::memcpy(&header, in_->data() + in_begin_, sizeof header);
  if (!within_limits(header))
    return false;
  const auto frame_bytes = sizeof header + header.page_count * sizeof(request_record);
  if (have < frame_bytes)
    return true;
  std::array<request_record, request_pages_max> records;
  std::memcpy(records.data(), in_->data() + in_begin_ + sizeof header, frame_bytes - sizeof header);
  if (!within_limits(records.data(), header.page_count))
    return false;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < header.page_count; ++i)
    bytes += records[i].length_bytes;
  out_of_pin_room_ =
      shared_.pinned_bytes != 0 && shared_.pinned_bytes + bytes > shared_.options.pinned_bytes_max;
  if (out_of_pin_room_)
    return true;
  in_begin_ += frame_bytes;
  if (!shared_.options.faults.mute_answers)
    begin_answer(header, records.data());
  return true;
}

void tcp_server_session::begin_answer(const request_header& header, const request_record* records) {
  PEERCACHE_ASSERT(!sending()); // The answer before still pins its pages.
  head_.clear();
  head_sent_ = 0;
  pages_.clear();
  damaged_.clear();
  out_at_ = out_offset_ = 0;
  append_bytes(head_, answer_header{answer_magic, header.page_count, header.request_id});
  for (std::uint32_t i = 0; i < header.page_count; ++i) {
    auto status = page_status::not_found;
    pin(records[i], status);
    head_.push_back(static_cast<std::byte>(status));
  }
}

void tcp_server_session::pin(const request_record& record, page_status& status) {
  outgoing_page page{record.slot};
  status = shared_.source.pin(record.slot, record.gen, record.key, record.length_bytes, page.bytes);
  if (status != page_status::hit)
    return;
  PEERCACHE_ASSERT(page.bytes.size() == record.length_bytes);
  page.pinned = true;
  shared_.pinned_bytes += record.length_bytes;
  ++shared_.payloads;
  // Tests only: without this guard the slot may be reused while its bytes are sent.
  if (!guard_on(guard::pin))
    release(page);
  const auto flip = shared_.options.faults.flip_byte_one_in;
  if (flip != 0 && shared_.payloads % flip == 0)
    page.bytes = damaged(page.bytes);
  pages_.push_back(page);
}

std::span<const std::byte> tcp_server_session::damaged(std::span<const std::byte> bytes) {
  auto& copy = damaged_.emplace_back(bytes.begin(), bytes.end());
  copy[copy.size() / 2] ^= std::byte{0x40};
  return copy;
}

bool tcp_server_session::send(std::size_t& budget) {
  const auto& faults = shared_.options.faults;
  while (sending() && writable_ && budget > 0) {
    std::array<iovec, pieces_per_send_max> pieces;
    std::size_t count = 0;
    auto room = faults.send_chunk_bytes != 0 ? faults.send_chunk_bytes : budget;
    const auto add = [&](const std::byte* data, std::size_t bytes) {
      const auto taken = std::min(bytes, room);
      if (taken != 0)
        pieces[count++] = {const_cast<std::byte*>(data), taken};
      room -= taken;
    };
    add(head_.data() + head_sent_, head_.size() - head_sent_);
    for (auto i = out_at_; i < pages_.size() && room > 0; ++i) {
      const auto offset = i == out_at_ ? out_offset_ : 0;
      add(pages_[i].bytes.data() + offset, pages_[i].bytes.size() - offset);
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const auto done = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0 && errno == EAGAIN) {
      writable_ = false;
      return true;
    }
    if (done < 0)
      return false;
    budget -= std::min(budget, static_cast<std::size_t>(done));
    sent(static_cast<std::size_t>(done));
    if (faults.close_after_bytes != 0 && answer_bytes_sent_ >= faults.close_after_bytes)
      return false;
    if (faults.between_chunks && sending())
      faults.between_chunks();
  }
  return true;
}

void tcp_server_session::sent(std::size_t bytes) {
  answer_bytes_sent_ += bytes;
  shared_.bytes_sent += bytes;
  const auto of_head = std::min(bytes, head_.size() - head_sent_);
  head_sent_ += of_head;
  bytes -= of_head;
  while (bytes > 0) {
    PEERCACHE_ASSERT(out_at_ < pages_.size());
    auto& page = pages_[out_at_];
    const auto here = std::min(bytes, page.bytes.size() - out_offset_);
    out_offset_ += here;
    bytes -= here;
    if (out_offset_ == page.bytes.size()) {
      release(page);
      ++out_at_;
      out_offset_ = 0;
    }
  }
}

void tcp_server_session::release(outgoing_page& page) noexcept {
  if (!std::exchange(page.pinned, false))
    return;
  shared_.source.unpin(page.slot);
  PEERCACHE_ASSERT(shared_.pinned_bytes >= page.bytes.size());
  shared_.pinned_bytes -= page.bytes.size();
}

} // namespace peercache::rdma
