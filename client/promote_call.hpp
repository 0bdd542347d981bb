#pragma once

#include "actors/protocol/disk_wire.hpp"
#include "client/session.hpp"
#include "directory/page_location.hpp"

#include <optional>
#include <string>
#include <vector>

namespace peercache::client {

/// Pages that are on a node's disk only, sorted into one message for each node.
/// Threads: one object per call.
class cold_pages {
public:
  /// @param index the caller's name for the page
  void add(std::uint32_t index, const page_key& key, const directory::page_location& on_disk);
  bool empty() const noexcept { return shares_.empty(); }

  /// Best effort: the nodes bring the pages into their pools, if they have nothing better to do.
  void warm(const actors::topology& cluster);

private:
  friend class promote_call;
  struct share {
    incarnation owner;
    std::string pages; ///< promoted_page records.
    std::vector<std::uint32_t> indices;
  };
  share& share_of(const incarnation& owner);

  std::vector<share> shares_;
};

/// Asks the nodes to bring cold pages into their pools, all at once; the caller reads other pages
/// meanwhile. Threads: one object per call. Bound: `take` returns by the deadline.
class promote_call {
public:
  promote_call(session& with, const actors::topology& cluster, cold_pages pages, deadline until);

  struct place {
    std::uint32_t index = 0;
    /// Where the page is in memory now; nothing: it could not be had.
    std::optional<directory::page_location> location;
  };
  /// Waits for the answers: one place for each page.
  std::vector<place> take();

private:
  using pending_answer = decltype(std::declval<caf::scoped_actor&>()->request(
      std::declval<actors::gateway_actor>(), std::chrono::milliseconds{}, actors::promote_atom_v,
      std::string{}, std::uint32_t{}));

  session::caller self_;
  cold_pages pages_;
  std::vector<std::optional<pending_answer>> answers_; ///< By share.
};

} // namespace peercache::client
