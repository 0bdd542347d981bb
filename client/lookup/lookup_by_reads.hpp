#pragma once

#include "client/lookup/lookup_carrier.hpp"
#include "client/lookup/lookup_over_tcp.hpp"
#include "client/lookup/remote_shards.hpp"
#include "directory/remote_search.hpp"
#include "rdma/data_plane.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// Answers a question from the memory of its owner's shard, by READs over a rail
/// (directory/remote_search.hpp): no processor of the owner's host takes part. Where the shard or
/// the rail does not allow it, the owner's node is asked over TCP after all. Lifetime: shards,
/// channels and owner outlive the carrier; READs that are under way end before its memory does.
class lookup_by_reads final : public lookup_carrier {
public:
  /// @param how by which view the client asks, and which keys the owner owns by it
  /// @param alone whether no other question is under way, so that the calling thread may work on
  /// the READs itself
  /// @pre shards.can_read(owner, the request's bytes)
  lookup_by_reads(remote_shards& shards, lookup_channels& channels, const link::peer& owner,
                  directory::remote_search::asking how, bool alone);
  ~lookup_by_reads() override;

  state start(std::string_view request) override;
  state advance() override;
  std::string_view answer() const override { return asked_ ? asked_->answer() : answer_; }
  pollfd awaited() const override { return asked_ ? asked_->awaited() : pollfd{-1, 0, 0}; }
  bool wait_briefly(time_point until) override;
  time_point look_at() const override;
  void keep() override;

private:
  state go_on();
  bool read_units();
  /// Takes the units that have arrived. True: there is a next round.
  bool take_units();
  void end_reads() noexcept;
  state ask_node();

  remote_shards& shards_;
  lookup_channels& channels_;
  const link::peer& owner_;
  directory::remote_search::asking how_;
  const bool alone_;
  std::string_view request_;
  landing_stock::lease memory_;
  rdma::read_lane* lane_ = nullptr; ///< Null: no READ is under way.
  rdma::read_batch batch_;
  directory::known_shard_ptr known_; ///< What was known of the shard before.
  std::optional<directory::remote_search> search_;
  std::optional<lookup_over_tcp> asked_;
  std::string answer_;
};

} // namespace peercache::client
