#include "client/lookup/lookup_over_tcp.hpp"

#include "directory/wire.hpp"

#include <utility>

namespace peercache::client {
namespace {

/// Bytes of keys in one frame: a large question is sent in frames, so that its first part is
/// answered while the rest is still on its way.
constexpr std::size_t frame_bytes = 128 * directory::wire::key_bytes;

} // namespace

lookup_carrier::state lookup_over_tcp::start(std::string_view request) {
  channel_ = channels_.lease(owner_);
  if (!channel_)
    return state::broken;
  channel_->ask(request, frame_bytes);
  return advance();
}

lookup_carrier::state lookup_over_tcp::advance() {
  switch (channel_->advance()) {
  case net::frame_channel::state::asking:
    return state::asking;
  case net::frame_channel::state::answered:
    return state::answered;
  case net::frame_channel::state::broken:
    break;
  }
  return state::broken;
}

void lookup_over_tcp::keep() {
  channels_.give_back(owner_.self.inc, std::move(channel_));
}

} // namespace peercache::client
