#pragma once

#include "common/result.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace peercache::real {

/// Hosts on one machine: network namespaces, joined by a bridge in one more namespace, the hub,
/// with faults between them by nftables. The namespaces have no name outside of this process: the
/// kernel removes them with the last process inside, however this process ends.
///
/// Threads: one at a time. Ownership: owns the namespaces' descriptors. Errors: `make` says what is
/// missing (root, a program, a kernel without namespaces); all other functions return results.
/// Invariant: the hub hears every host and is heard by it, whatever is cut, so that an observer in
/// the hub sees both sides.
class net_lab {
public:
  static result<net_lab> make(std::uint32_t hosts);
  ~net_lab();
  net_lab(net_lab&& other) noexcept : spaces_(std::exchange(other.spaces_, {})) {
    cuts_ = std::move(other.cuts_);
    loss_percent_ = std::move(other.loss_percent_);
    deaf_ = std::move(other.deaf_);
    closed_ = std::move(other.closed_);
  }
  net_lab& operator=(net_lab&&) = delete;

  std::uint32_t hosts() const { return static_cast<std::uint32_t>(spaces_.size()) - 1; }
  static std::string address(std::uint32_t host);
  static std::string hub_address();
  /// Returns the network namespace of a host, for child processes that should run in it; the
  /// descriptor is open as long as this object lives.
  int network(std::uint32_t host) const { return spaces_[host + 1]; }

  /// `enter` and `enter_hub` move the calling thread, and what it starts from now on, to a host or
  /// to the hub.
  void enter(std::uint32_t host) const { enter_space(host + 1); }
  void enter_hub() const { enter_space(0); }

  /// Cuts one direction: no packet from the host `from` reaches the host `to` from then on.
  result<void> cut(std::uint32_t from, std::uint32_t to);
  /// Cuts both directions between each of the hosts `these` and each other host.
  result<void> part(const std::set<std::uint32_t>& these);
  /// Loses `percent` percent of the packets that come to this host.
  result<void> lose(std::uint32_t host, std::uint32_t percent);
  /// Drops all packets that come to this host, without a sign to the sender.
  result<void> deafen(std::uint32_t host);
  /// Drops all packets that come to this TCP port of the host, as a firewall would whose rules do
  /// not allow the port.
  result<void> close_port(std::uint32_t host, std::uint16_t port);
  /// Puts processes of this host behind a translation of addresses: packets of other hosts to its
  /// address come to `inner`, an address that only this host has. Packets of the host itself to its
  /// address do not.
  result<void> translate(std::uint32_t host, const std::string& inner) const;
  /// Ends all cuts and losses of all hosts, and opens all closed ports.
  result<void> heal();
  /// Ends all cuts from and to this host, and its losses.
  result<void> heal(std::uint32_t host);

private:
  net_lab() = default;
  result<void> add_space();
  result<void> run(std::size_t space, const std::string& script) const;
  void enter_space(std::size_t space) const;
  result<void> apply(std::uint32_t host) const;
  result<void> apply() const;
  std::string rules(std::uint32_t host) const;

  std::vector<int> spaces_; ///< Descriptors of the namespaces, the hub's first.
  std::set<std::pair<std::uint32_t, std::uint32_t>> cuts_;
  std::vector<std::uint32_t> loss_percent_;
  std::set<std::uint32_t> deaf_;
  std::set<std::pair<std::uint32_t, std::uint16_t>> closed_; ///< Closed ports, each with its host.
};

} // namespace peercache::real
