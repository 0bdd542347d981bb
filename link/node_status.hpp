#pragma once

#include "common/result.hpp"
#include "discovery/view.hpp"
#include "link/protocol/reports.hpp"
#include "metrics/samples.hpp"

#include <cstdint>
#include <string_view>

namespace peercache::link {

/// The state of one node, as it reports it.
struct node_status : node_report {
  discovery::member self; ///< What `node_report::member` says.

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
