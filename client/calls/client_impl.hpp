#pragma once

#include "client/lookup/directory_lookup.hpp"
#include "client/lookup/location_cache.hpp"
#include "client/lookup/location_choice.hpp"
#include "client/lookup/lookup_channels.hpp"
#include "client/lookup/remote_shards.hpp"
#include "client/members/close_signal.hpp"
#include "client/notes/call_log.hpp"
#include "client/notes/counters.hpp"
#include "client/read/page_heat.hpp"
#include "client/read/peer_health.hpp"
#include "client/read/peer_load.hpp"
#include "client/read/read_plane.hpp"
#include "client/session/session.hpp"
#include "client/values/client_options.hpp"
#include "client/values/pages.hpp"
#include "common/forks.hpp"
#include "net/tls_context.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace peercache::client {

/// The parts of a `cache_client`; the calls (get_call, set_call) work with it. Members are
/// constructed in this order and destroyed in the reverse.
class client_impl {
public:
  client_impl(const client_options& opts, std::unique_ptr<read_plane> plane,
              const std::shared_ptr<net::tls_context>& tls);
  ~client_impl();

  const client_options options;
  const home_process home;
  close_signal closing;
  counters totals;
  call_log calls;
  location_cache locations;
  peer_health health;
  peer_load load;
  page_heat heat;
  lookup_channels channels;
  lookup_channels hold_channels; ///< Connections to the nodes that are asked to hold pages.
  peer_health hold_health;       ///< Health of the nodes that are asked to hold pages.
  std::unique_ptr<read_plane> reads;
  remote_shards shards;
  client::session session;

  /// Ends the waits of running calls.
  void close();
  /// Sets the status of pages that the close cut short to `closed`, so that no peer is blamed for
  /// them.
  void settle_closed(std::span<page_result> results) const noexcept;
  deadline deadline_of(std::optional<deadline> until) const;
  /// Returns a look-up for a call that asks the directory in pieces.
  directory_lookup lookup();
  /// Stores the location in the cache, unless the page lies in this host's pool (`own`; may be
  /// null), where it is looked up directly.
  void remember(const page_key& key, const directory::page_location& location,
                const own_pool_ptr& own) noexcept;
  /// Asks the directory, with one message to each owner. Returns the longest wait.
  longest_wait look_up(std::span<const page_key> keys, std::span<lookup_answer> answers,
                       deadline until, const directory_lookup::while_asking& during);
  /// Queues a commit for the node, and wakes the session's actor if nobody has. The commit's answer
  /// takes its bytes out of the set window from here on, whatever is thrown.
  void queue_commit(pending_commit job, set_window::stay& stay);
  /// Notes a call that has ended, for `peercache slow` and `peercache sessions`.
  void note_call(link::call_kind kind, const page_key& first, std::span<const page_result> results,
                 call_watch::duration took, const longest_wait& wait);
  /// Whether to compare the checksum of the next page that is read.
  bool verify(verify_mode mode) noexcept;

private:
  std::atomic<std::uint32_t> sampled_{0};
  std::vector<caf::actor> read_threads_; ///< Threads that run the lanes, one for each.
};

/// Returns what `choose_location` needs to know of this client.
reader_place place_of(client_impl& client, const own_pool_ptr& own);

} // namespace peercache::client
