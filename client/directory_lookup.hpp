#pragma once

#include "client/cache_client.hpp"
#include "client/counters.hpp"
#include "client/lookup_channels.hpp"
#include "client/peer_health.hpp"
#include "client/session.hpp"

#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// What the directory says of one key.
struct lookup_answer {
  page_status status = page_status::pending; ///< hit, not_found, or why nobody could be asked.
  page_status reason =
      page_status::unreachable; ///< While pending: why the last owner did not answer.
  node_id asked;                ///< Who was asked last.
  std::uint8_t count = 0;
  std::array<directory::page_location, limits::locations_per_key_max> locations;
};

/// Asks the owners of many keys at once, one message an owner; the next replica where one fails.
/// Threads: one object per call. Bound: returns by the deadline; keys that are open then are
/// `timed_out`.
class directory_lookup {
public:
  directory_lookup(session& with, lookup_channels& channels, peer_health& health, counters& totals);

  /// @pre answers.size() == keys.size()
  void run(std::span<const page_key> keys, std::span<lookup_answer> answers, deadline until);

private:
  /// One owner's share of the keys in one round.
  struct share {
    const actors::peer* owner = nullptr;
    std::string request;
    std::vector<std::uint32_t> indices;
    std::unique_ptr<rdma::frame_channel> channel; ///< While it is being asked.
  };

  /// Sorts the open keys by the owner to be asked in this round; gives up on keys that have none
  /// left.
  void distribute(std::span<const page_key> keys, std::span<lookup_answer> answers);
  /// The first owner of `key` that may be asked, the own host's shard before all others; null when
  /// none may.
  const actors::peer* choose_owner(const page_key& key, lookup_answer& answer);
  /// Whether `owner` may be asked in this round; claims its breaker's probe at most once.
  bool usable(const actors::peer& owner);
  share& share_of(const actors::peer& owner);
  /// Sends all shares, takes all answers that come by then.
  void ask(std::span<lookup_answer> answers, deadline until);
  /// Moves one share's connection on; false once it has been answered or has failed.
  bool advance(share& asked, std::span<lookup_answer> answers);
  void take(const share& asked, const std::string& answer, std::span<lookup_answer> answers);
  void failed(const share& asked, page_status reason, std::span<lookup_answer> answers);

  lookup_channels& channels_;
  peer_health& health_;
  counters& counters_;
  actors::topology_ptr cluster_;
  own_pool_ptr own_;
  bool view_is_young_ =
      false; ///< Shards may not have what they own yet: `not_found` asks the next replica.
  std::vector<share> shares_;
  std::vector<const actors::peer*>
      given_up_; ///< Owners that failed in this call, or must be left alone.
};

} // namespace peercache::client
