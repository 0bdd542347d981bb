#pragma once

#include "common/result.hpp"
#include "discovery/view.hpp"
#include "link/protocol/reports.hpp"
#include "metrics/samples.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::link {

/// The state of one node, as it reports it.
struct node_status {
  discovery::member self;
  std::string unready_reason; ///< Why the node is not ready; empty when it is.
  std::string data_plane;     ///< How the node serves pages, "tcp" or "verbs", with the reason.
  std::string version;
  /// All metrics of the node but those of its data planes.
  metrics::samples samples;
  directory_report directory;
  disk_report disk;
  membership_report membership;
  links_report links;
  std::uint16_t lookup_port = 0; ///< The port where the node's directory answers clients.
  std::uint64_t unix_ms = 0;     ///< The node's time of day when it answered, in ms since 1970.
  /// The options that all members of a cluster need alike, by their names.
  std::map<std::string, std::string> common_options;
  /// Names (`node_parts`) of the node's actors that did not answer: the status lacks their part.
  std::vector<std::string> silent;

  /// The value of a metric without labels; 0 when the node does not say it.
  std::uint64_t count(metrics::metric id) const { return samples.count(id); }
  /// Whether a gauge that is 0 or 1 is 1.
  bool is(metrics::metric id) const { return samples.value(id) != 0; }
  /// Whether the part of this actor (a name of `node_parts`) is missing, so that its numbers are 0
  /// here whatever they are.
  bool lacks(std::string_view part) const;
};

/// The state that a node's report says. Errors: those of decoding a member.
result<node_status> status_of(node_report report);

} // namespace peercache::link
