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

/// What the clients of this node told of their calls, for `peercache why`; those that ended stay
/// for the window. A plain class, owned by the gateway. Threads: one. Bounds: `bytes_max`,
/// `report_bytes_max` and `ended_max`.
class client_calls {
public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Bytes of memory for all clients' reports; they fit in one message of the control port.
  static constexpr std::size_t bytes_max = 40u << 20;
  /// Bytes of one client's report, so that no client takes the room of all others.
  static constexpr std::size_t report_bytes_max = bytes_max / 4;
  static constexpr std::size_t ended_max = 64;

  /// Takes what the client of a session tells, in place of what it told before. False, and what it
  /// told before stays: it told too much, or all clients together did.
  bool take(std::uint64_t session, const std::string& client, call_report report, time_point now);
  /// The session has ended.
  void end(std::uint64_t session, time_point now);
  /// Returns the key spaces that a session's client told of, however long ago: those that their
  /// makers have described, and the spaces of all other keys.
  std::vector<session_space> spaces_of(std::uint64_t session) const;
  /// How the client of this session said that it reads from other hosts; empty: it has not said.
  std::string data_plane_of(std::uint64_t session) const;
  /// Returns the reports that are younger than the window.
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

  std::map<std::uint64_t, told> open_; ///< By session.
  std::deque<told> ended_;             ///< The oldest one first.
  std::size_t bytes_ = 0;              ///< Memory of all reports.
};

} // namespace peercache::actors
