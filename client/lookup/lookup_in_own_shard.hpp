#pragma once

#include "client/lookup/lookup_carrier.hpp"
#include "client/lookup/lookup_over_tcp.hpp"
#include "client/notes/counters.hpp"
#include "directory/remote_search.hpp"
#include "directory/shard_object.hpp"
#include "storage/epoch_table.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace peercache::client {

/// Answers a question to the node of this host from the memory of its shard, at once and without a
/// message. Where the shard does not allow it, as while its node is outside the cluster, the node
/// is asked over TCP. Lifetime: shard, channels and owner outlive the carrier.
class lookup_in_own_shard final : public lookup_carrier {
public:
  /// @param how by which view the client asks, and which keys the owner owns by it
  /// @param epochs of the node: what was cleared
  lookup_in_own_shard(const directory::attached_shard& shard, const storage::epoch_table& epochs,
                      lookup_channels& channels, const link::peer& owner,
                      directory::remote_search::asking how, counters& totals)
      : shard_(shard), epochs_(epochs), how_(std::move(how)), counters_(totals),
        asked_(channels, owner) {}

  state start(std::string_view request) override;
  state advance() override { return asked_.advance(); }
  std::string_view answer() const override { return read_ ? answer_ : asked_.answer(); }
  pollfd awaited() const override { return asked_.awaited(); }
  void keep() override;

private:
  /// Whether the shard has given the whole answer.
  bool read(std::string_view request);

  const directory::attached_shard& shard_;
  const storage::epoch_table epochs_;
  const directory::remote_search::asking how_;
  counters& counters_;
  lookup_over_tcp asked_;
  bool read_ = false;
  std::string answer_;
};

} // namespace peercache::client
