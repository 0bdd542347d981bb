#include "rdma/tcp/tcp_server_session.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace peercache::rdma {

namespace {

/// Most pieces of memory of one sendmsg: enough for the pages of a request, and for many short
/// rows.
constexpr std::size_t pieces_per_send_max = 512;
static_assert(pieces_per_send_max > request_pages_max && pieces_per_send_max <= IOV_MAX);
static_assert(hello_magic != verbs_hello_magic && sizeof(hello) <= sizeof(verbs_hello),
              "a hello of either protocol is told from the other, and has room");

/// Whether the first `have` bytes can be the beginning of a hello with this magic.
bool begins_with(std::span<const std::byte> bytes, std::size_t have, std::uint32_t magic) noexcept {
  return std::memcmp(bytes.data(), &magic, std::min(have, sizeof magic)) == 0;
}

} // namespace

tcp_server_session::tcp_server_session(tcp_server_state& shared, net::stream_socket socket,
                                       clock::time_point came_at, clock::time_point now)
    : shared_(shared), came_at_(came_at), moved_at_(now), peer_(net::peer_address(socket.fd())),
      answer_(shared, peer_),
      extent_(wanted_extent(socket.under_tls(), shared.options.pages_in_tls)),
      socket_(std::move(socket)) {}

void tcp_server_session::on_events(std::uint32_t events) noexcept {
  hung_up_ |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  readable_ |= hung_up_ || (events & EPOLLIN) != 0;
  writable_ |= hung_up_ || (events & EPOLLOUT) != 0;
}

bool tcp_server_session::overdue(clock::time_point now) noexcept {
  const auto quiet = now - moved_at_;
  const auto& options = shared_.options;
  if (phase_ != phase::serving)
    return quiet >= options.hello_timeout;
  return answer_.sending() ? slow_for(now) >= options.send_timeout : quiet >= options.idle_timeout;
}

std::optional<clock::time_point> tcp_server_session::ends_at() const noexcept {
  if (phase_ != phase::serving)
    return moved_at_ + shared_.options.hello_timeout;
  if (answer_.sending())
    return std::nullopt;
  return moved_at_ + shared_.options.idle_timeout;
}

clock::duration tcp_server_session::slow_for(clock::time_point now) noexcept {
  if (!answer_.sending())
    return clock::duration::zero();
  const std::chrono::duration<double> elapsed = now - slow_since_;
  const auto sent = static_cast<double>(answer_bytes_sent_ - slow_from_);
  if (sent > 0 && sent >= elapsed.count() * static_cast<double>(shared_.options.send_rate_min)) {
    slow_since_ = moved_at_;
    slow_from_ = answer_bytes_sent_;
  }
  return now - slow_since_;
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
    if (answer_.sending() || budget == 0)
      break;
    if (phase_ == phase::refusing)
      return progress::ended;
    const auto end_before = in_end_;
    slow_since_ =
        now; // An answer that begins in this turn counts as slow from now at the earliest.
    slow_from_ = answer_bytes_sent_;
    if (!receive() || !(phase_ == phase::greeting ? take_hello() : take_request()))
      return progress::ended;
    if (phase_ == phase::given_away)
      return progress::given_away;
    if (!answer_.sending() && in_end_ == end_before)
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
  if (ended_ && !answer_.sending())
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
  const auto got = socket_.receive(to + in_end_, room);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    readable_ = errno == EINTR;
    return true;
  }
  if (got < 0)
    return false;
  ended_ = got == 0;
  in_end_ += static_cast<std::size_t>(got);
  // A short read has emptied a plain socket; TLS may have stopped at a record's end.
  if (static_cast<std::size_t>(got) < room && !hung_up_ && !socket_.under_tls())
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
  // Only a session in this phase is known to have a whole verbs hello.
  PEERCACHE_ASSERT(phase_ == phase::given_away);
  verbs_hello greeting;
  std::memcpy(&greeting, hello_.data(), sizeof greeting);
  return greeting;
}

void tcp_server_session::answer_verbs_hello() {
  verbs_answer answer;
  answer.verdict = verbs_verdict::no_device;
  phase_ = phase::refusing;
  in_begin_ = in_end_ = 0;
  answer_.begin(answer);
}

void tcp_server_session::answer_hello() {
  hello greeting;
  std::memcpy(&greeting, hello_.data(), sizeof greeting);
  hello_answer answer;
  answer.verdict =
      judge(greeting, shared_.cluster, shared_.options.inc, shared_.serves.service(), extent_);
  const bool accepted = answer.verdict == hello_verdict::accepted;
  // A refused peer does not learn incarnation and extent: with them it would be accepted next time.
  if (accepted) {
    answer.inc = shared_.options.inc;
    answer.extent = extent_ = agreed(greeting.extent, extent_).value_or(extent_);
  }
  phase_ = accepted ? phase::serving : phase::refusing;
  if (accepted)
    in_ = std::make_unique<std::array<std::byte, in_bytes_max>>();
  in_begin_ = in_end_ = 0;
  if (!shared_.options.faults.mute_hello)
    answer_.begin(answer);
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
  const auto service = shared_.serves.service();
  if (!within_limits(records.data(), header.page_count, service))
    return false;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < header.page_count && service == data_service::pool; ++i)
    bytes += records[i].length_bytes;
  out_of_pin_room_ = bytes != 0 && !shared_.pins.admits(this, peer_, bytes);
  if (out_of_pin_room_)
    return true;
  in_begin_ += frame_bytes;
  if (!shared_.options.faults.mute_answers)
    answer_.begin(header, records.data());
  return true;
}

/// Sends at most `bytes_max` bytes of the answer, inside or past TLS as agreed. Returns what
/// `stream_socket::send` does.
ssize_t tcp_server_session::send_some(std::size_t bytes_max) {
  std::array<iovec, pieces_per_send_max> pieces;
  const auto* spans = shared_.serves.spans;
  const auto reading = spans != nullptr ? spans->read() : served_spans::reading{};
  const auto text = answer_.text_left();
  const bool text_alone = extent_ == tls_extent::handshake && text != 0;
  const auto count =
      answer_.next(pieces, text_alone ? std::min(bytes_max, text) : bytes_max, reading);
  if (count == 0) {
    errno = EFAULT; // The memory is no longer served.
    return -1;
  }
  const auto next = std::span(pieces).first(count);
  return extent_ == tls_extent::handshake && !text_alone ? socket_.send_past_tls(next)
                                                         : socket_.send(next);
}

bool tcp_server_session::send(std::size_t& budget) {
  const auto& faults = shared_.options.faults;
  while (answer_.sending() && writable_ && budget > 0) {
    const auto room = faults.send_chunk_bytes != 0 ? faults.send_chunk_bytes : budget;
    const auto done = send_some(room);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0 && errno == EAGAIN) {
      writable_ = false;
      return true;
    }
    if (done < 0)
      return false;
    budget -= std::min(budget, static_cast<std::size_t>(done));
    answer_bytes_sent_ += static_cast<std::size_t>(done);
    shared_.bytes_sent += static_cast<std::size_t>(done);
    answer_.advance(static_cast<std::size_t>(done));
    if (faults.close_after_bytes != 0 && answer_bytes_sent_ >= faults.close_after_bytes)
      return false;
    if (faults.between_chunks && answer_.sending())
      faults.between_chunks();
  }
  return true;
}

} // namespace peercache::rdma
