#pragma once

#include "common/page_key.hpp"
#include "common/result.hpp"
#include "common/tls_paths.hpp"
#include "discovery/view.hpp"
#include "link/node_status.hpp"
#include "link/protocol/calls.hpp"
#include "link/protocol/history.hpp"
#include "link/protocol/reports.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

using link::node_status;

/// Asks and operates one node; the CLI's commands use it. Threads: one at a time. Errors: results.
/// Each call ends within `timeout`, `set_drained` and `clear` within their `within` plus `timeout`;
/// destructor and a failed `connect` may take half a second more.
class admin_client {
public:
  /// @param tls certificate, key and CA; empty: the connection is plain
  static result<std::unique_ptr<admin_client>> connect(const std::string& host, std::uint16_t port,
                                                       const std::string& cluster,
                                                       std::chrono::milliseconds timeout,
                                                       const tls_paths& tls = {});
  ~admin_client();

  result<node_status> status();
  result<discovery::view> view();
  /// What the node remembers of the last hour: its numbers in steps, and events.
  result<link::history_report> history();
  /// The clients that have a session at the node.
  result<link::sessions_report> sessions();
  /// What the node's clients asked for and stored within the last five minutes.
  result<link::calls_report> calls();
  /// How these pages left the node, as far as it remembers.
  result<link::lost_report> lost_pages(std::span<const page_key> keys);
  /// The largest and most-read pages of the node's pool, and its spaces.
  result<link::page_census> census();
  /// Lets the node log from this level on (a word of log.level) until its process ends; an empty
  /// word only asks. Returns the level in force.
  result<std::string> log_level(const std::string& level);
  /// Asks the node to leave: it becomes unready, withdraws its pages, and lets running reads
  /// finish. Returns when the node is done, or the time has passed.
  result<void> drain();

  /// With `drained` the node gives its keys away and takes no more pages; without, it takes part
  /// again. Returns what the drain came to; the change shows in a later view. Errors: timed_out
  /// when the node does not end it within `within`; it goes on by itself then.
  result<link::drain_report> set_drained(bool drained, std::chrono::milliseconds within);

  /// Lets the cluster forget that the member `name` is gone; a later view no longer says so. Asked
  /// of the leader: `not_found` when the node does not lead, or nobody of this name is gone.
  result<void> forget(const std::string& name);

  /// Lets the node clear a space, as `cache_client::clear` does. @param gone names of nodes that
  /// are gone for good, with all clients of their hosts: neither this clear nor a later one waits
  /// for them
  result<link::clear_report> clear(std::string_view space, const std::vector<std::string>& gone,
                                   std::chrono::milliseconds within);

  /// Begins to read the node's whole disk tier and to compare checksums; `status` shows the
  /// progress. `not_found` when there is no disk tier.
  result<void> verify_disk();
  /// Begins to evict from the disk tier until `bytes` of it are free. `not_found` when there is no
  /// disk tier.
  result<void> evict_disk(std::uint64_t bytes);

private:
  class impl;
  explicit admin_client(std::unique_ptr<impl> body);
  std::unique_ptr<impl> impl_;
};

} // namespace peercache::client
