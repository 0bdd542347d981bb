#include "late_relay.hpp"

#include "common/assert.hpp"

#include <array>
#include <cerrno>
#include <deque>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace peercache::handoff_stress {

namespace {

using clock = std::chrono::steady_clock;

net::unique_fd listener_of() {
  auto made = net::listen_on("127.0.0.1", 0, 64);
  PEERCACHE_ASSERT(made);
  return std::move(*made);
}

/// One direction of a relayed connection: holds each byte until its delay is over.
class late_stream {
public:
  explicit late_stream(std::chrono::milliseconds later) : later_(later) {}

  /// Receives the bytes that have arrived at the socket. Returns false when the socket has
  /// ended or failed.
  bool take(int from, clock::time_point now) {
    std::array<char, 65536> bytes;
    while (true) {
      const auto count = ::recv(from, bytes.data(), bytes.size(), 0);
      if (count == 0 || (count < 0 && errno != EAGAIN))
        return false;
      if (count < 0)
        return true;
      waiting_.push_back({now + later_, {bytes.data(), static_cast<std::size_t>(count)}});
    }
  }

  bool give(int to, clock::time_point now) {
    while (!waiting_.empty() && waiting_.front().due <= now) {
      auto& first = waiting_.front().bytes;
      const auto count = ::send(to, first.data(), first.size(), MSG_NOSIGNAL);
      if (count < 0)
        return errno == EAGAIN || errno == ENOTCONN;
      first.erase(0, static_cast<std::size_t>(count));
      if (first.empty())
        waiting_.pop_front();
    }
    return true;
  }

private:
  struct late_bytes {
    clock::time_point due;
    std::string bytes;
  };
  std::chrono::milliseconds later_;
  std::deque<late_bytes> waiting_;
};

} // namespace

class late_relay::connection {
public:
  connection(net::unique_fd decode, net::unique_fd prefill, std::chrono::milliseconds later)
      : decode_(std::move(decode)), prefill_(std::move(prefill)), to_decode_(later) {}

  /// Receives and passes on bytes in both directions. Returns false when the connection has ended.
  bool step(clock::time_point now) {
    return to_decode_.take(prefill_.get(), now) && to_prefill_.take(decode_.get(), now) &&
           to_decode_.give(decode_.get(), now) && to_prefill_.give(prefill_.get(), now);
  }
  void add_to(std::vector<pollfd>& polled) const {
    polled.push_back({decode_.get(), POLLIN, 0});
    polled.push_back({prefill_.get(), POLLIN, 0});
  }

private:
  net::unique_fd decode_, prefill_;
  late_stream to_decode_;
  late_stream to_prefill_{std::chrono::milliseconds(0)};
};

late_relay::late_relay(std::uint16_t to, std::chrono::milliseconds later)
    : to_(to), later_(later), listener_(listener_of()), thread_([this] { run(); }) {}

late_relay::~late_relay() {
  stop_.store(true, std::memory_order_release);
  thread_.join();
}

void late_relay::run() {
  std::vector<connection> open;
  while (!stop_.load(std::memory_order_acquire)) {
    std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
    for (const auto& each : open)
      each.add_to(polled);
    // At most a millisecond, because delayed bytes may become due.
    ::poll(polled.data(), polled.size(), 1);
    while (auto decode = net::accept_from(listener_, {}))
      if (auto prefill = net::start_connect("127.0.0.1", to_, {}))
        open.emplace_back(std::move(decode), std::move(*prefill), later_);
    const auto now = clock::now();
    std::erase_if(open, [now](connection& each) { return !each.step(now); });
  }
}

} // namespace peercache::handoff_stress
