#pragma once

#include "common/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::discovery {

// Members and views travel between processes: discovery/view_codec.hpp describes their bytes, whose
// version is `view_format`.

/// A node as all other nodes know it: its name, incarnation, addresses and state.
struct member {
  std::string name; ///< Configured name or host name of the node; unique in a view.
  node_id id;       ///< Always node_id_of(name).
  incarnation inc;
  std::string host; ///< Address that peers of this node connect to.
  std::uint16_t control_port = 0;
  std::uint16_t data_port = 0;
  std::uint16_t http_port = 0;
  std::uint16_t lookup_port = 0; ///< Where clients of all hosts send this node their look-ups.
  std::uint8_t rails = 0; ///< Over how many rails peers can READ the node's pool; 0: TCP only.
  /// Whether the node drains: it owns no keys, but its pages are still read and its shard is still
  /// asked.
  bool draining = false;
  bool operator==(const member&) const = default;
};

/// The address where a node's actors listen. Endpoints are compared as text: the code that fills in
/// an endpoint resolves names first.
struct endpoint {
  std::string host;
  std::uint16_t port = 0;
  auto operator<=>(const endpoint&) const = default;
};

/// The address of `who` for the membership protocol.
inline endpoint control_endpoint(const member& who) {
  return {who.host, who.control_port};
}

/// The number of a view. Stamps compare in the order of the fields, so a later view compares
/// greater. The issuer only breaks the tie between two leaders that could not hear each other: no
/// two different views have equal stamps.
struct view_stamp {
  std::uint64_t term = 0;
  std::uint64_t version = 0;
  incarnation issuer;
  auto operator<=>(const view_stamp&) const = default;
};

/// Why a member is gone.
enum class departure : std::uint8_t {
  silent, ///< The member was not heard of for an expiry.
  /// The connection to the member broke, and the member was not heard of after that.
  connection_broke,
  replaced, ///< Another process runs in the member's place or answers at the member's address.
};
/// The departure in words: "silent", "connection broke", "replaced".
std::string_view to_string(departure why) noexcept;

/// A former member that neither came back nor left in good order.
struct departed {
  std::string name;
  std::string host;
  std::uint16_t control_port = 0;
  std::uint64_t since_ms = 0; ///< Unix time by the clock of the process that made the view, ms.
  departure why = departure::silent;
  bool operator==(const departed&) const = default;
};

/// The members of a cluster. Views compare by (term, version, issuer): a node ignores an older
/// view. Term 0 means that there is no view.
///
/// A fragment is what is left of a cluster that lost a majority of its masters. It keeps the term
/// of the view that it comes from, and every other view has a higher term than the previous view:
/// so the view that a majority makes after the common base view is newer than all fragments of that
/// base.
struct view {
  std::uint64_t term = 0;
  std::uint64_t version = 0;   ///< Number of the view; grows with every view.
  std::vector<member> members; ///< All nodes of the cluster, sorted by node_id.
  /// Names of the masters: the pinned head first, then by node_id. The first master leads.
  std::vector<std::string> masters;
  incarnation issuer; ///< The process that made this view.
  /// The masters of the last view that was not a fragment; no majority of them is in this view.
  /// Empty when this view is not a fragment.
  std::vector<member> former_masters;
  /// Members that are gone, the newest last; names differ from each other and from those of the
  /// members.
  std::vector<departed> gone;
  bool operator==(const view&) const = default;

  /// Finds a member by binary search. Null when the view has no such member.
  const member* find(node_id id) const noexcept;
  /// As `find(id)`, but null when the member is another process than `inc`.
  const member* find(node_id id, const incarnation& inc) const noexcept;
  /// Finds a member by looking at all of them.
  const member* find(const incarnation& inc) const noexcept;
  const member* find_name(std::string_view name) const noexcept;
  /// The gone member of this name; null when none of this name is gone.
  const departed* find_gone(std::string_view name) const noexcept;
  /// The first master of the view; null in an empty view.
  const member* leader() const noexcept;
  bool is_master(std::string_view name) const noexcept;
  bool fragment() const noexcept { return !former_masters.empty(); }
  /// How many of the former masters are not members of this view; 0 when this view is not a
  /// fragment.
  std::size_t masters_lost() const noexcept;
  view_stamp stamp() const noexcept { return {term, version, issuer}; }
  bool newer_than(const view& other) const noexcept;
};

/// Whether host name `a` comes before `b` in natural order: digits compare as numbers, so host2
/// comes before host10.
bool natural_less(const std::string& a, const std::string& b) noexcept;

} // namespace peercache::discovery
