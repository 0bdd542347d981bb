#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace peercache::actors {

/// Clients that have lately opened a session and left it without mapping the pool: such a client
/// cannot map the pool, and asks for a session again and again. A plain class, owned by the
/// gateway. Threads: one. Bound: `clients_max` names; further ones are not noted.
class unmapped_clients {
public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t clients_max = 64;
  /// A client is forgotten when it has not come again for this long.
  static constexpr std::chrono::seconds kept{10};

  void note(const std::string& client, time_point now);
  /// The names of the clients that came within `kept`.
  std::vector<std::string> names(time_point now) const;

private:
  std::map<std::string, time_point> seen_; ///< When each client came last, by its name.
};

} // namespace peercache::actors
