#include "rdma/tcp/tcp_channel.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"
#include "common/trivial_bytes.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <sys/ioctl.h>
#include <sys/uio.h>

namespace peercache::rdma {

namespace {

/// Most pieces of memory of one readv: enough for many short rows.
constexpr std::size_t pieces_per_read_max = 256;
static_assert(pieces_per_read_max <= IOV_MAX);

} // namespace

tcp_channel::tcp_channel(std::uint64_t id, net::stream_socket socket, const peer_endpoint& peer,
                         const tcp_data_plane_options& opts, clock::time_point now)
    : page_channel(id, now), options_(opts), cluster_(cluster_digest(peer.cluster)), inc_(peer.inc),
      service_(peer.service), socket_(std::move(socket)),
      extent_(wanted_extent(opts.tls != nullptr, opts.pages_in_tls)), payload_(opts.device) {
  hello greeting;
  greeting.service = service_;
  greeting.extent = extent_;
  greeting.cluster = cluster_;
  greeting.inc = inc_;
  append_bytes(out_, greeting);
  sent_.reserve(opts.requests_ahead_max);
}

void tcp_channel::on_events(std::uint32_t events) noexcept {
  hung_up_ |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  readable_ |= hung_up_ || (events & EPOLLIN) != 0;
  writable_ |= hung_up_ || (events & EPOLLOUT) != 0;
}

std::vector<sub_request> tcp_channel::close() noexcept {
  // A broken channel writes nothing to the job's memory. The socket ends with the channel's
  // destructor, which may run later.
  phase_ = phase::broken;
  payload_.drop();
  job_ = nullptr;
  return std::exchange(sent_, {});
}

tcp_channel::progress tcp_channel::step(std::size_t& bytes_left) {
  if (phase_ == phase::broken)
    return progress::broken;
  if (phase_ == phase::connecting && !finish_connect())
    return phase_ == phase::broken ? progress::broken : progress::blocked;
  bool moved = false;
  if (phase_ == phase::ready)
    send_requests();
  if (!flush() || !receive(bytes_left, moved) || !flush())
    return progress::broken;
  return moved ? progress::moved : progress::blocked;
}

bool tcp_channel::finish_connect() {
  if (!writable_)
    return false;
  using net_step = net::stream_socket::step;
  const auto at = socket_.establish();
  if (at == net_step::refused)
    return broken(loss_reason::not_connected);
  if (at == net_step::established)
    phase_ = phase::greeting;
  return at == net_step::established;
}

void tcp_channel::send_requests() {
  if (job_ == nullptr)
    return;
  while (job_->has_untaken() && sent_.size() < options_.requests_ahead_max) {
    const auto sub = job_->take();
    PEERCACHE_ASSERT(sub.count >= 1 &&
                     sub.count <= request_pages_max); // Servers refuse any other number of pages.
    append_bytes(out_, request_header{request_magic, sub.count, next_request_id_++});
    for (std::uint32_t i = 0; i < sub.count; ++i) {
      const auto& page = job_->page(sub.first + i);
      append_bytes(out_,
                   request_record{page.key, page.gen, page.slot, page.length_bytes, page.source});
    }
    sent_.push_back(sub);
  }
}

bool tcp_channel::flush() {
  while (out_sent_ < out_.size()) {
    if (!writable_)
      return true;
    const auto sent = socket_.send(out_.data() + out_sent_, out_.size() - out_sent_);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && errno == EAGAIN) {
      writable_ = false;
      return true;
    }
    if (sent < 0 && phase_ == phase::ready && (errno == EPIPE || errno == ECONNRESET))
      // The peer no longer receives, but its answers that are on the way are still read up to the
      // stream's end.
      break;
    if (sent < 0)
      return broken(phase_ == phase::greeting ? loss_reason::not_connected : loss_reason::closed);
    out_sent_ += static_cast<std::size_t>(sent);
  }
  if (out_sent_ < out_.size())
    readable_ = hung_up_ = true;
  out_.clear();
  out_sent_ = 0;
  return true;
}

bool tcp_channel::receive(std::size_t& bytes_left, bool& moved) {
  while (readable_ && bytes_left > 0) {
    if (!payload_.done()) {
      if (!receive_payload(bytes_left, moved))
        return false;
    } else if (phase_ == phase::greeting || !sent_.empty()) {
      if (!receive_head(moved))
        return false;
    } else {
      // Silence is checked only on a channel without a job: a channel with a job is about to send
      // more requests, and their answers show whether the peer lives.
      return job_ != nullptr && !hung_up_ ? true : check_silence();
    }
  }
  return true;
}

std::size_t tcp_channel::head_bytes() const noexcept {
  if (phase_ == phase::greeting)
    return sizeof(hello_answer);
  const auto count = sent_.front().count;
  return awaits_verdicts_ ? whole_answer_lines(count) : answer_head_bytes(count);
}

bool tcp_channel::read_into(std::span<const iovec> to, std::size_t& bytes, bool past_tls) {
  bytes = 0;
  std::size_t asked = 0;
  for (const auto& piece : to)
    asked += piece.iov_len;
  ssize_t got;
  do
    got = past_tls ? socket_.receive_past_tls(to) : socket_.receive(to);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) {
    readable_ = false;
    return true;
  }
  if (got < 0 && errno == EFAULT)
    return broken(loss_reason::bad_memory);
  if (got <= 0)
    return broken(phase_ == phase::greeting ? loss_reason::not_connected : loss_reason::closed);
  bytes = static_cast<std::size_t>(got);
  readable_ = may_read_on(bytes, asked);
  return true;
}

/// Whether another read may find something, after a read of `asked` bytes has got `bytes`. A short
/// read has emptied the stream, and bytes that come later make a new event, so the channel need not
/// read again before that event. Three exceptions: a read that stopped at memory that cannot be
/// written to leaves bytes behind (FIONREAD tells), and the next read reports the fault; after a
/// hang-up no new event comes, so that the end of the stream must still be read; and TLS may have
/// stopped at a record's end.
bool tcp_channel::may_read_on(std::size_t bytes, std::size_t asked) const noexcept {
  if (bytes == asked || hung_up_ || socket_.under_tls())
    return true;
  int left = 0;
  return ::ioctl(socket_.fd(), FIONREAD, &left) == 0 && left != 0;
}

bool tcp_channel::receive_head(bool& moved) {
  const auto wanted = head_bytes();
  PEERCACHE_ASSERT(head_have_ < wanted && wanted <= head_.size());
  const iovec to{head_.data() + head_have_, wanted - head_have_};
  std::size_t got = 0;
  if (!read_into({&to, 1}, got))
    return false;
  moved |= got != 0;
  head_have_ += got;
  if (head_have_ < wanted)
    return true;
  head_have_ = 0;
  return on_head();
}

bool tcp_channel::on_head() {
  if (phase_ == phase::greeting)
    return on_hello_answer();
  return awaits_verdicts_ ? on_verdicts() : on_answer_head();
}

bool tcp_channel::on_hello_answer() {
  const auto answer = read_as<hello_answer>(head_.data());
  if (answer.magic != hello_magic || answer.verdict > hello_verdict::incompatible)
    return broken(loss_reason::violation);
  if (answer.verdict == hello_verdict::other_incarnation ||
      (answer.verdict == hello_verdict::accepted && answer.inc != inc_ &&
       guard_on(guard::incarnation)))
    return broken(loss_reason::other_incarnation);
  if (answer.verdict != hello_verdict::accepted || answer.version != tcp_wire_version)
    return broken(loss_reason::not_accepted);
  if (agreed(extent_, answer.extent) != answer.extent)
    return broken(loss_reason::violation); // The sides do not agree on what is inside TLS.
  extent_ = answer.extent;
  phase_ = phase::ready;
  send_requests();
  return flush();
}

bool tcp_channel::on_answer_head() {
  PEERCACHE_ASSERT(job_ != nullptr && !sent_.empty()); // Each answer is to a request of the job.
  const auto header = read_as<answer_header>(head_.data());
  const auto& sub = sent_.front();
  const auto expected_id = next_request_id_ - sent_.size();
  if (header.magic != answer_magic || header.page_count != sub.count ||
      header.request_id != expected_id)
    return broken(loss_reason::violation);
  const auto* statuses = reinterpret_cast<const std::uint8_t*>(head_.data()) + sizeof header;
  if (!std::all_of(statuses, statuses + sub.count, is_answer_status))
    return broken(loss_reason::violation);
  job_->answered = true;
  heard_since_attach_ = true;
  for (std::uint32_t i = 0; i < sub.count; ++i) {
    const auto status = static_cast<page_status>(statuses[i]);
    if (status != page_status::hit)
      job_->page(sub.first + i).status = status;
  }
  payload_.begin(*job_, sub,
                 service_ == data_service::pool ? page_receiver::decides::hits_and_misses
                                                : page_receiver::decides::misses);
  if (payload_.done())
    payload_done();
  return true;
}

void tcp_channel::payload_done() {
  awaits_verdicts_ = service_ == data_service::handoff;
  if (!awaits_verdicts_)
    answer_done();
}

bool tcp_channel::on_verdicts() {
  PEERCACHE_ASSERT(job_ != nullptr && !sent_.empty());
  const auto& sub = sent_.front();
  const auto* verdicts = reinterpret_cast<const std::uint8_t*>(head_.data());
  if (!std::all_of(verdicts, verdicts + sub.count, is_answer_status))
    return broken(loss_reason::violation);
  for (std::uint32_t i = 0; i < sub.count; ++i) {
    const auto verdict = static_cast<page_status>(verdicts[i]);
    auto& status = job_->page(sub.first + i).status;
    // Bytes that came under a lease that had ended are stale, whatever their checksum says.
    if (status == page_status::pending ||
        (status == page_status::corrupt && verdict != page_status::hit))
      status = verdict;
  }
  awaits_verdicts_ = false;
  answer_done();
  return true;
}

bool tcp_channel::receive_payload(std::size_t& bytes_left, bool& moved) {
  std::array<iovec, pieces_per_read_max> pieces;
  const auto count = payload_.next(pieces, options_.receive_piece_bytes);
  std::size_t got = 0;
  if (!read_into(std::span(pieces).first(count), got, extent_ != tls_extent::full))
    return false;
  moved |= got != 0;
  bytes_left -= std::min(bytes_left, got);
  if (!payload_.advance(got))
    return broken(loss_reason::bad_memory);
  if (payload_.done())
    payload_done();
  return true;
}

void tcp_channel::answer_done() {
  sent_.erase(sent_.begin());
  job_->decided();
  send_requests();
}

bool tcp_channel::check_silence() {
  std::byte unexpected;
  const iovec to{&unexpected, 1};
  std::size_t got = 0;
  if (!read_into({&to, 1}, got))
    return false;
  return got == 0 || broken(loss_reason::violation);
}

} // namespace peercache::rdma
