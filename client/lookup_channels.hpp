#pragma once

#include "link/protocol/topology.hpp"
#include "net/frame_channel.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace peercache::client {

/// Connections to the members' directory shards, each used by one call at a time. Threads: any.
/// Bound: idle ones per member; what comes back beyond that is closed.
class lookup_channels {
public:
  explicit lookup_channels(std::string cluster) : cluster_(std::move(cluster)) {}

  static constexpr std::size_t idle_per_member_max = 16;

  /// An idle connection, or a new one that is being made; null when there can be none.
  std::unique_ptr<net::frame_channel> lease(const link::peer& owner);
  /// @pre its last question was answered
  void give_back(const incarnation& owner, std::unique_ptr<net::frame_channel> channel);
  /// Closes the idle connections to whoever is not in this view, when it is another one than the
  /// last.
  void follow(const discovery::view& view);

private:
  const std::string cluster_;
  std::mutex lock_;
  /// By lock_.
  std::unordered_map<incarnation, std::vector<std::unique_ptr<net::frame_channel>>> idle_;
  discovery::view_stamp followed_; ///< By lock_.
};

} // namespace peercache::client
