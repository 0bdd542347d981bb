#include "link/socket_watch.hpp"

#include <algorithm>
#include <cstdint>
#include <pthread.h>
#include <system_error>
#include <utility>

namespace peercache::link {

namespace {

constexpr std::uint64_t of_a_socket = 1;
constexpr std::chrono::hours for_ever{1};

} // namespace

result<std::unique_ptr<socket_watch>> socket_watch::begin(std::function<void()> has_news) {
  auto poll = net::event_poll::create();
  if (!poll)
    return poll.error();
  try {
    return std::unique_ptr<socket_watch>(new socket_watch(std::move(*poll), std::move(has_news)));
  } catch (const std::system_error& why) {
    return error{errc::io_failed, why.what()};
  }
}

socket_watch::socket_watch(net::event_poll poll, std::function<void()> has_news)
    : poll_(std::move(poll)), has_news_(std::move(has_news)), thread_([this] { run(); }) {}

socket_watch::~socket_watch() {
  stopped_ = true;
  poll_.wake();
  thread_.join();
}

bool socket_watch::add(int fd) noexcept {
  return poll_.add(fd, of_a_socket);
}

void socket_watch::look_at(time_point at) noexcept {
  if (at < look_at_.exchange(at))
    poll_.wake(); // The thread would sleep beyond the new time.
}

void socket_watch::run() {
  ::pthread_setname_np(::pthread_self(), "peercache-dials");
  while (!stopped_) {
    auto at = look_at_.load();
    const auto now = std::chrono::steady_clock::now();
    const auto left = at == time_point::max() ? std::chrono::nanoseconds(for_ever) : at - now;
    const auto events = poll_.collect(std::max(left, std::chrono::nanoseconds(0)));
    bool has_news = std::any_of(events.begin(), events.end(), [](const auto& event) {
      // A copy, because the packed epoll_event does not align its member.
      const std::uint64_t id = event.data.u64;
      return id == of_a_socket;
    });
    if (std::chrono::steady_clock::now() >= at)
      has_news |= look_at_.compare_exchange_strong(at, time_point::max());
    if (has_news)
      has_news_();
  }
}

} // namespace peercache::link
