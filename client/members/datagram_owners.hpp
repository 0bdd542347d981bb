#pragma once

#include "common/ids.hpp"
#include "link/lookup_datagram.hpp"
#include "net/datagram_socket.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace peercache::client {

/// A member that answers look-ups by datagram, and what came of asking it so. When datagrams to the
/// member are lost again and again although it answers over TCP, something between blocks them:
/// they are left alone for a while.
///
/// Threads: any. Time is an argument.
class datagram_owner {
public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::uint32_t misses_max = 3; ///< Lost datagrams in a row until the pause.
  static constexpr std::chrono::seconds pause{30};

  datagram_owner(const incarnation& member, const net::datagram_address& at,
                 const link::datagram_pass& by)
      : inc(member), address(at), pass(by) {}

  bool is_usable(time_point now) const noexcept {
    return now.time_since_epoch().count() >= paused_until_.load(std::memory_order_relaxed);
  }
  /// Notes that an answer has come by datagram.
  void heard() noexcept {
    if (misses_.load(std::memory_order_relaxed) != 0)
      misses_.store(0, std::memory_order_relaxed);
  }
  /// Notes that a datagram was not answered, and the same question over TCP was. After a pause the
  /// first loss begins the next pause.
  void missed(time_point now) noexcept {
    if (misses_.fetch_add(1, std::memory_order_relaxed) + 1 >= misses_max)
      paused_until_.store((now + pause).time_since_epoch().count(), std::memory_order_relaxed);
  }

  const incarnation inc;
  const net::datagram_address address;
  const link::datagram_pass pass;

private:
  std::atomic<std::uint32_t> misses_{0};
  std::atomic<time_point::rep> paused_until_{0};
};

/// The members that this client may ask by datagram, and a stock of sockets to ask them with.
///
/// Threads: any. Errors: a member without a pass, or whose address is not numeric, is asked over
/// TCP. Bound: `idle_sockets_max` sockets that nobody uses; one member for each connection of
/// member_channels.
class datagram_owners {
public:
  using time_point = datagram_owner::time_point;

  static constexpr std::size_t idle_sockets_max = 16;

  /// @param wanted false: no member is asked by datagram
  explicit datagram_owners(bool wanted) : wanted_(wanted) {}

  /// Notes the pass that a member has given, which holds until `forget`.
  void learn(const incarnation& member, const std::string& host, std::uint16_t port,
             const link::datagram_pass& pass);
  void forget(const incarnation& member);
  /// Returns a member that may be asked by datagram now, or null.
  std::shared_ptr<datagram_owner> find(const incarnation& member, time_point now) const;

  /// Returns a socket for one call at a time; null: the process has no descriptor left. Late
  /// answers to earlier questions may lie in the socket.
  std::unique_ptr<net::datagram_socket> lease(int family);
  void give_back(int family, std::unique_ptr<net::datagram_socket> socket);
  /// A number that no other caller gets.
  std::uint64_t next_round() noexcept { return ++last_round_; }

private:
  const bool wanted_;
  std::atomic<std::uint64_t> last_round_{0};
  mutable std::mutex lock_; ///< Guards all members below, which any thread's call uses.
  std::unordered_map<incarnation, std::shared_ptr<datagram_owner>> owners_;
  std::map<int, std::vector<std::unique_ptr<net::datagram_socket>>> idle_; ///< By family.
};

} // namespace peercache::client
