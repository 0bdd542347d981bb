#pragma once

#include "common/ids.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::discovery {

/// One node as the cluster knows it.
struct member {
  std::string name; ///< Configured or host name; unique in a view.
  node_id id;       ///< node_id_of(name)
  incarnation inc;
  std::string host; ///< Address that peers connect to.
  std::uint16_t control_port = 0;
  std::uint16_t data_port = 0;
  std::uint16_t http_port = 0;
  bool operator==(const member&) const = default;
};

/// Who is in the cluster. Compared by (term, version): terms only grow, a node ignores an older view.
struct view {
  std::uint64_t term = 0;
  std::uint64_t version = 0;
  std::vector<member> members;      ///< Sorted by node_id.
  std::vector<std::string> masters; ///< Names, the leader's own order: pinned head first, then natural order.
  bool operator==(const view&) const = default;

  const member* find(node_id id) const noexcept;
  const member* find(const incarnation& inc) const noexcept;
  bool newer_than(const view& other) const noexcept;
};

/// Natural order of host names: digits compare as numbers, so host2 comes before host10.
bool natural_less(const std::string& a, const std::string& b) noexcept;

} // namespace peercache::discovery
