#pragma once

#include "client/lookup/lookup_carrier.hpp"
#include "client/lookup/lookup_channels.hpp"
#include "link/protocol/topology.hpp"

#include <memory>
#include <string_view>

namespace peercache::client {

/// Carries a question over a connection to the owner's look-up port, plain or under TLS. Lifetime:
/// `channels` and the owner outlive the carrier.
class lookup_over_tcp final : public lookup_carrier {
public:
  lookup_over_tcp(lookup_channels& channels, const link::peer& owner)
      : channels_(channels), owner_(owner) {}

  state start(std::string_view request) override;
  state advance() override;
  std::string_view answer() const override { return channel_->answer(); }
  pollfd awaited() const override { return {channel_->fd(), channel_->events(), 0}; }
  /// Gives the connection back for other calls.
  void keep() override;

private:
  lookup_channels& channels_;
  const link::peer& owner_;
  std::unique_ptr<net::frame_channel> channel_; ///< Null before `start` and after `keep`.
};

} // namespace peercache::client
