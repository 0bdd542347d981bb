#pragma once

#include "link/protocol/reports.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace peercache::actors {

/// Callers that a node goes on refusing: processes that ask to come into the cluster, and nodes and
/// clients whose hello is refused. A healthy cluster reports them as faults, too, because its
/// operator may be the one who wants the caller to come in.
///
/// Threads: one owner. Memory: `callers_max` callers; a further one takes the place of a caller
/// that is not named yet, or is not kept. A value; time is an argument.
class turned_away {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// A caller is named once its refusals lie this far apart: a process that starts again, or whose
  /// port is opened late, comes in within that time.
  static constexpr std::chrono::seconds patience{5};
  /// How long a caller is named after it was refused last.
  static constexpr std::chrono::seconds kept_for{60};
  static constexpr std::size_t callers_max = 16;

  /// Notes that a caller was refused.
  /// @param who the caller in words, by which it is known; printable
  /// @param why why it was refused, in printable words
  /// @param fix what to do, in words; empty where `why` says it
  /// @param today the time of day, in ms since 1970
  void note(const std::string& who, std::string why, std::string fix, time_point now,
            std::uint64_t today);

  /// Forgets a caller: it has come in.
  void forget(const std::string& who);

  /// Returns a fault for each caller that was refused over `patience` or longer, and last within
  /// `kept_for`.
  std::vector<link::node_fault> faults(time_point now) const;

private:
  struct caller {
    std::string why;
    std::string fix;
    std::uint64_t since_ms = 0; ///< Time of day of the first refusal, in ms since 1970.
    time_point first;
    time_point last;

    bool is_named() const noexcept { return last - first >= patience; }
  };

  /// Makes room for one more caller, if necessary in place of one that is not named. False: every
  /// known caller is named.
  bool make_room();

  std::map<std::string, caller> callers_;
};

} // namespace peercache::actors
