#pragma once

#include "link/protocol/topology.hpp"
#include "net/frame_channel.hpp"
#include "net/tls_context.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace peercache::client {

/// Connections to the members' look-up ports, under TLS if it is configured, each used by one call
/// at a time. Threads: any. Bound: `idle_per_member_max` idle connections to each member; what is
/// given back beyond that, or after its member left the view, is closed.
class lookup_channels {
public:
  /// @param tls null: the connections are plain
  /// @param magic the greeting's first number, for look-ups in the directory or for the questions
  /// of link/member_question.hpp
  explicit lookup_channels(std::string cluster, std::shared_ptr<net::tls_context> tls = nullptr,
                           std::uint32_t magic = net::frames::magic)
      : cluster_(std::move(cluster)), tls_(std::move(tls)), magic_(magic) {}

  static constexpr std::size_t idle_per_member_max = 16;

  /// Returns an idle connection, or a new one that is still connecting; null when neither is
  /// possible.
  std::unique_ptr<net::frame_channel> lease(const link::peer& member);
  /// Returns a connection to the stock. @pre the last question on it was answered
  void give_back(const incarnation& member, std::unique_ptr<net::frame_channel> channel);
  /// If the view is another than in the last call, closes the idle connections to nodes that are
  /// not in it.
  void follow(const discovery::view& view);

private:
  const std::string cluster_;
  const std::shared_ptr<net::tls_context> tls_;
  const std::uint32_t magic_;
  std::mutex lock_;
  /// Guarded by lock_.
  std::unordered_map<incarnation, std::vector<std::unique_ptr<net::frame_channel>>> idle_;
  discovery::view_stamp followed_; ///< Guarded by lock_.
};

} // namespace peercache::client
