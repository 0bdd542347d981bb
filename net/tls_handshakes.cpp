#include "net/tls_handshakes.hpp"

#include "common/log.hpp"
#include "common/printable.hpp"

#include <algorithm>
#include <sys/socket.h>
#include <utility>

namespace peercache::net {

namespace {

/// How late an overdue connection may be closed.
constexpr std::chrono::milliseconds late_look_every{250};

} // namespace

result<std::unique_ptr<tls_handshakes>>
tls_handshakes::create(std::shared_ptr<tls_context> context) {
  auto events = event_poll::create();
  if (!events)
    return events.error();
  return std::unique_ptr<tls_handshakes>(
      new tls_handshakes(std::move(context), std::move(*events)));
}

void tls_handshakes::add(unique_fd socket, on_established done, tls_peers wanted) {
  const auto now = clock::now();
  auto address = peer_host(socket.get());
  {
    const std::lock_guard guard(lock_);
    if (stopped_)
      return;
    if (open_ >= open_max) {
      if (full_lines_.allows("", now))
        log::warn("tls: {} handshakes are going on, further connections are closed", open_max);
      return;
    }
    ++open_;
    new_.push_back({std::move(socket), std::move(address), std::move(done), now + patience, wanted,
                    std::nullopt});
  }
  events_.wake();
}

void tls_handshakes::stop() noexcept {
  stopped_ = true;
  events_.wake();
}

void tls_handshakes::run() {
  while (!stopped_)
    turn(open_ == 0 ? clock::duration(std::chrono::minutes(1)) : late_look_every);
  connections_.clear();
  const std::lock_guard guard(lock_);
  new_.clear();
}

void tls_handshakes::turn(clock::duration at_most) {
  const auto events = events_.collect(at_most);
  const auto now = clock::now();
  for (const auto& event : events)
    if (const std::uint64_t id = event.data.u64; id != event_poll::wake_id)
      go_on(id, now);
  take_new();
  drop_late(now);
}

void tls_handshakes::take_new() {
  std::vector<connection> taken;
  {
    const std::lock_guard guard(lock_);
    taken.swap(new_);
  }
  for (auto& each : taken) {
    const auto id = next_id_++;
    // A socket that is readable already causes an event as soon as it is added.
    if (events_.add(each.socket.get(), id))
      connections_.emplace(id, std::move(each));
    else
      --open_;
  }
}

void tls_handshakes::go_on(std::uint64_t id, clock::time_point now) {
  const auto found = connections_.find(id);
  if (found == connections_.end())
    return;
  auto& known = found->second;
  if (!known.session) {
    // Memory for TLS is not taken on behalf of somebody who has said nothing.
    char first = 0;
    const auto got = ::recv(known.socket.get(), &first, 1, MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (got > 0)
      known.session.emplace(context_->accepted(known.socket.get(), known.wanted));
  }
  const auto step = known.session ? known.session->shake_hands() : tls_session::step::refused;
  if (step == tls_session::step::working)
    return;
  auto over = std::move(known);
  connections_.erase(found);
  --open_;
  if (step == tls_session::step::established) {
    events_.remove(over.socket.get());
    over.done(std::move(over.socket), std::move(*over.session));
  } else if (over.session) { // A peer that hangs up without a byte was a probe: no log line.
    tell(over, over.session->refusal(), now);
  }
}

void tls_handshakes::drop_late(clock::time_point now) {
  open_ -= std::erase_if(connections_, [&](const auto& entry) {
    if (entry.second.until > now)
      return false;
    tell(entry.second, "no handshake within 2 s", now);
    return true;
  });
}

void tls_handshakes::tell(const connection& refused, const std::string& why,
                          clock::time_point now) {
  if (lines_.allows(refused.address, now))
    log::warn("tls: refused a connection from {}: {}", refused.address, peer_text(why));
}

} // namespace peercache::net
