#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace peercache {

/// Keeps others from filling the log: each source may cause one line per minute. Pure: time is an
/// argument. Threads: none; the owner serializes. Limits: after `sources_max` sources have had a
/// line within a minute, further sources get none until the first of these minutes is over.
class log_limit {
public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::minutes pause{1};
  static constexpr std::size_t sources_max = 256;
  /// Sources that are alike in this many bytes count as one.
  static constexpr std::size_t source_bytes_max = 256;

  /// Whether the source may cause a line now; a yes starts the source's minute.
  bool allows(std::string_view source, time_point now) {
    std::erase_if(silent_until_, [now](const auto& entry) { return entry.second <= now; });
    const auto named = std::string(source.substr(0, source_bytes_max));
    if (silent_until_.size() >= sources_max || silent_until_.contains(named))
      return false;
    silent_until_.emplace(named, now + pause);
    return true;
  }

private:
  std::map<std::string, time_point> silent_until_;
};

} // namespace peercache
