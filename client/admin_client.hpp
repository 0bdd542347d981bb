#pragma once

#include "common/result.hpp"
#include "common/tls_paths.hpp"
#include "discovery/view.hpp"
#include "link/protocol/reports.hpp"
#include "metrics/samples.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// The state of one node, as it reports it.
struct node_status {
  discovery::member self;
  std::string unready_reason; ///< Why the node is not ready; empty when it is.
  std::string data_plane;     ///< How the node serves pages, "tcp" or "verbs", with the reason.
  std::string version;
  /// All metrics of the node but those of its data planes.
  metrics::samples samples;
  link::directory_report directory;
  link::disk_report disk;
  link::membership_report membership;
  link::links_report links;
  std::uint16_t lookup_port = 0; ///< The port where the node's directory answers clients.
  std::uint64_t unix_ms = 0;     ///< The node's time of day when it answered, in ms since 1970.
  /// The options that all members of a cluster need alike, by their names.
  std::map<std::string, std::string> common_options;

  /// The value of a metric without labels; 0 when the node does not say it.
  std::uint64_t count(metrics::metric id) const { return samples.count(id); }
  /// Whether a gauge that is 0 or 1 is 1.
  bool is(metrics::metric id) const { return samples.value(id) != 0; }
};

/// Asks and operates one node; the CLI is made of it. Threads: one at a time. Errors: results; each
/// call ends within `timeout`.
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
  /// Asks the node to leave: it becomes unready, withdraws its pages, and lets running reads
  /// finish. Returns when the node is done, or the time has passed.
  result<void> drain();

  /// With `drained` the node gives its keys away and takes no more pages; without, it takes part
  /// again. Returns how many directory records went to their new owners; the change shows in a
  /// later view.
  result<std::uint64_t> set_drained(bool drained, std::chrono::milliseconds within);

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
