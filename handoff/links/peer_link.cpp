#include "handoff/links/peer_link.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace peercache::handoff {

namespace {

/// Length of the longest frame that a worker may send before its hello was read: a hello, of
/// whatever version.
constexpr std::size_t hello_bytes_max = 1024;
/// Bytes that one link may receive before other links have their turn.
constexpr std::size_t turn_bytes_max = 4u << 20;
constexpr std::size_t piece_bytes = 65'536;

std::string in_milliseconds(std::chrono::milliseconds time) {
  return std::to_string(time.count()) + " ms";
}

} // namespace

peer_link::peer_link(peer_id id, const own_side& own, net::stream_socket socket, origin from,
                     time_point now)
    : id_(id), own_(own), origin_(from), stream_(std::move(socket), own.options.queue_bytes_max),
      heard_at_(now), sent_at_(now) {
  if (from == origin::dialed)
    stream_.push(encode(own.self), message_bytes_max);
}

bool peer_link::narrow_to(const incarnation& process) noexcept {
  if (!meant_)
    meant_ = process;
  return *meant_ == process;
}

void peer_link::step(time_point now, event_batch& out) {
  stream_.flush();
  if (is_open())
    receive(now, out);
  if (is_open() && stream_.ended() && !frames_wait_)
    lose_ended(now, out);
  if (phase_ != phase::over)
    stream_.flush();
  if (phase_ == phase::leaving)
    linger();
}

void peer_link::receive(time_point now, event_batch& out) {
  std::size_t budget = turn_bytes_max;
  if (frames_wait_)
    take_frames(now, out);
  while (is_open() && !frames_wait_ && budget > 0) {
    const auto most = phase_ == phase::greeting ? hello_bytes_max : piece_bytes;
    const auto got = stream_.receive(std::min(budget, most));
    if (got == 0)
      return;
    budget -= got;
    // Bytes of a peer that has not said hello do not prolong its time, so a hello cannot be sent in
    // drips for longer than `hello_timeout`.
    if (phase_ == phase::joined)
      heard_at_ = now;
    take_frames(now, out);
  }
}

void peer_link::take_frames(time_point now, event_batch& out) {
  frames_wait_ = false;
  while (is_open()) {
    // A hello is read even when `out` is full, so that it does not wait behind messages of other
    // peers.
    frames_wait_ = phase_ == phase::joined && out.is_full();
    if (frames_wait_)
      return;
    const auto payload = stream_.take(frame_bytes_max());
    if (!payload)
      break;
    take_message(*payload, now, out);
  }
  if (is_open() && stream_.too_long())
    reject(loss_reason::malformed, "a frame claims to be longer than any message", now, out);
}

/// Length of the longest frame that the peer may send now. A peer that has joined is of the side
/// `other_side` of this worker.
std::size_t peer_link::frame_bytes_max() const noexcept {
  if (phase_ == phase::greeting)
    return hello_bytes_max;
  return message_bytes_max_of(other_side(own_.self.side));
}

void peer_link::take_message(std::string_view bytes, time_point now, event_batch& out) {
  auto read = decode(bytes);
  if (!read) {
    const bool other = read.error().code == errc::incompatible;
    reject(other ? loss_reason::refused : loss_reason::malformed, read.error().message, now, out);
  } else if (const auto* said = std::get_if<refusal>(&*read)) {
    lose(loss_reason::refused, "the other worker refuses: " + said->reason, out);
  } else if (phase_ == phase::greeting) {
    take_hello(*read, now, out);
  } else if (std::holds_alternative<hello>(*read)) {
    reject(loss_reason::malformed, "a second hello came over one connection", now, out);
  } else if (!std::holds_alternative<beat>(*read)) {
    out.push(peer_said{id_, std::move(*read)}, bytes.size());
  }
}

void peer_link::take_hello(const message& first, time_point now, event_batch& out) {
  const auto* said = std::get_if<hello>(&first);
  if (said == nullptr) {
    reject(loss_reason::malformed, "the first message is no hello", now, out);
    return;
  }
  if (const auto objection = objection_to(*said)) {
    reject(loss_reason::refused, *objection, now, out);
    return;
  }
  phase_ = phase::joined;
  meant_ = said->process;
  heard_at_ = now;
  if (origin_ == origin::accepted) {
    stream_.push(encode(own_.self), message_bytes_max);
    sent_at_ = now;
  }
  out.push(peer_joined{id_, *said});
}

std::optional<std::string> peer_link::objection_to(const hello& said) const {
  if (said.cluster != own_.self.cluster)
    return "one worker is of cluster '" + own_.self.cluster + "', the other of '" + said.cluster +
           "'";
  if (said.process == own_.self.process)
    return "the worker has connected to itself";
  const bool is_expected = said.side == other_side(own_.self.side);
  if (!is_expected &&
      (said.side == engine_side::transfer || own_.self.side == engine_side::transfer))
    return "one worker is a transfer engine, and the other one is of prefill or decode; transfer "
           "engines talk to transfer engines alone";
  if (!is_expected) {
    const std::string side(to_string(said.side));
    return "both workers are of " + side + ", and only prefill and decode have rooms together; " +
           "give each the addresses of the other side's workers";
  }
  if (meant_ && *meant_ != said.process)
    return "process " + to_string(*meant_) + " was meant, and " + to_string(said.process) +
           " is at its address now";
  return std::nullopt;
}

void peer_link::send(const message& what, time_point now, event_batch& out) {
  if (!is_open())
    return;
  PEERCACHE_ASSERT(phase_ == phase::joined);
  sent_at_ = now;
  if (!stream_.push(encode(what), message_bytes_max))
    lose(loss_reason::queue_full,
         std::to_string(stream_.queued_bytes()) + " bytes wait for a worker that reads too slowly",
         out);
}

void peer_link::refuse(const std::string& reason, time_point now) {
  PEERCACHE_ASSERT(is_open());
  leave(reason, now);
}

void peer_link::leave(const std::string& reason, time_point now) {
  // A peer that already has much to read gets no refusal: the refusal is not worth the memory.
  const bool told = stream_.queued_bytes() <= piece_bytes &&
                    stream_.push(encode(refusal{reason}), message_bytes_max);
  phase_ = told ? phase::leaving : phase::over;
  frames_wait_ = false;
  heard_at_ = now;
}

void peer_link::reject(loss_reason reason, const std::string& detail, time_point now,
                       event_batch& out) {
  lose(reason, detail, out);
  leave(detail, now);
}

void peer_link::lose(loss_reason reason, std::string detail, event_batch& out) {
  PEERCACHE_ASSERT(is_open());
  if (!is_stranger())
    out.push(peer_lost{id_, reason, std::move(detail)});
  phase_ = phase::over;
}

void peer_link::lose_ended(time_point now, event_batch& out) {
  const int fault = stream_.fault();
  if (phase_ == phase::greeting && !stream_.has_sent() && fault != 0)
    lose(loss_reason::unreachable, stream_.fault_text(), out);
  else if (phase_ == phase::greeting && stream_.under_tls() && fault != 0 && fault != ETIMEDOUT)
    lose(loss_reason::refused,
         stream_.fault_text() + "; one of the two workers does not take the other's certificate, " +
             "or has no TLS: the log of the other one says more",
         out);
  else if (fault == ETIMEDOUT)
    lose_stuck(now, out);
  else if (fault != 0)
    lose(loss_reason::closed, stream_.fault_text(), out);
  else
    lose(loss_reason::closed, "the other side has closed the connection", out);
}

/// Ends a link that the kernel has given up, because the other side accepted none of the bytes sent
/// to it. If the other side was heard lately, it lives and does not read (`queue_full`), because
/// workers that live send beats; else it is `silent`.
void peer_link::lose_stuck(time_point now, event_batch& out) {
  const auto& options = own_.options;
  const auto limit = in_milliseconds(options.silence_max);
  if (now - heard_at_ < options.silence_max / 2)
    lose(loss_reason::queue_full,
         "the other worker lives and does not read what it is sent for " + limit, out);
  else
    lose(loss_reason::silent,
         "the other worker has taken nothing of what it is sent for " + limit +
             ", and says nothing: its host is gone, or its process stands still",
         out);
}

void peer_link::linger() {
  if (!finished_ && stream_.queued_bytes() == 0) {
    stream_.finish();
    finished_ = true;
  }
  stream_.receive(piece_bytes);
  stream_.discard();
  if (stream_.ended())
    phase_ = phase::over;
}

peer_link::time_point peer_link::deadline() const noexcept {
  const auto& options = own_.options;
  if (phase_ != phase::joined)
    return heard_at_ + options.hello_timeout;
  return std::min(heard_at_ + options.silence_max, sent_at_ + options.beat_interval);
}

bool peer_link::overdue(time_point now) const noexcept {
  const auto& options = own_.options;
  return phase_ != phase::over && !frames_wait_ &&
         now - heard_at_ >= (phase_ == phase::joined ? options.silence_max : options.hello_timeout);
}

void peer_link::check_time(time_point now, event_batch& out) {
  if (overdue(now)) {
    stream_.look_again();
    step(now, out);
  }
  if (overdue(now)) {
    lose_overdue(out);
  } else if (phase_ == phase::joined && now - sent_at_ >= own_.options.beat_interval) {
    // A peer that has not taken the earlier bytes learns nothing from one more beat.
    if (stream_.queued_bytes() == 0)
      stream_.push(encode(beat{}), message_bytes_max);
    sent_at_ = now;
    stream_.flush();
  }
}

void peer_link::lose_overdue(event_batch& out) {
  const auto& options = own_.options;
  if (phase_ == phase::joined)
    // Packets may be lost in one direction only. The end of a connection that is closed waits
    // behind bytes that are not acknowledged; a reset goes out at once, and tells a peer that hears
    // this worker.
    net::reset_when_closed(stream_.fd());
  if (phase_ == phase::leaving)
    phase_ = phase::over;
  else if (phase_ == phase::joined)
    lose(loss_reason::silent, "nothing has come for " + in_milliseconds(options.silence_max), out);
  else if (stream_.has_sent())
    lose(loss_reason::silent, "no hello has come within " + in_milliseconds(options.hello_timeout),
         out);
  else
    lose(loss_reason::unreachable,
         "no connection came about within " + in_milliseconds(options.hello_timeout), out);
}

} // namespace peercache::handoff
