#pragma once

#include "actors/link_names.hpp"
#include "link/protocol/calls.hpp"
#include "link/protocol/reports.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace peercache::actors {

/// What the clients of this node told of their calls, for `peercache why`. After a session has
/// ended, its client's report stays until it is `calls_window_ms` old. A plain class, owned by the
/// gateway. Threads: one. Bounds: `bytes_max`, `report_bytes_max` and `ended_max`.
class client_calls {
public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Bytes of memory for all clients' reports, so that all reports fit in one message of the
  /// control port.
  static constexpr std::size_t bytes_max = 40u << 20;
  /// Bytes of one client's report, so that no client takes the room of all others.
  static constexpr std::size_t report_bytes_max = bytes_max / 4;
  static constexpr std::size_t ended_max = 64;

  /// Takes the report of a session's client, in place of its previous one. False when the report,
  /// or all clients' reports together, would be too large: the previous report then stays.
  bool take(std::uint64_t session, const std::string& client, call_report report, time_point now);
  /// Call when the session has ended: its report is kept as one of an ended client.
  void end(std::uint64_t session, time_point now);
  /// Returns the key spaces that a session's client told of, however long ago: those with a
  /// description, and those that the client only used.
  std::vector<session_space> spaces_of(std::uint64_t session) const;
  /// The data plane by which the client of this session says that it reads from other hosts; empty:
  /// the client has not said.
  std::string data_plane_of(std::uint64_t session) const;
  /// Returns the reports that are at most `calls_window_ms` old.
  calls_report all(time_point now) const;

private:
  struct told {
    call_report report;
    time_point at;
  };

  void forget_old(time_point now);
  void drop_oldest();
  /// Drops the oldest ended client that described no key space, such as a call of `peercache`; if
  /// there is none, the oldest one.
  void drop_least();

  std::map<std::uint64_t, told> open_; ///< The last report of each open session, by session.
  /// Last reports of ended sessions, the session that ended first at the front.
  std::deque<told> ended_;
  std::size_t bytes_ = 0; ///< Memory of all reports, of open and ended sessions.
};

} // namespace peercache::actors
