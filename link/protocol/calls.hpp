#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace peercache::link {

// What a client notes of its calls, and what a node remembers of pages that left it. `peercache
// why` joins them to the cause of each miss. Times travel as ages, since clocks of hosts differ.
// Another field is another `wire_version`.

/// The calls that a client notes. The numbers travel.
enum class call_kind : std::uint8_t { exists, get, set };
inline constexpr std::size_t call_kinds = 3;

/// Minutes for which calls and lost pages count.
inline constexpr std::uint64_t calls_window_ms = 300'000;

/// A page that exists or get missed, or that set did not store.
struct failed_page {
  failed_page() = default;
  std::uint8_t call = 0;   ///< A call_kind.
  std::uint8_t status = 0; ///< A page_status.
  std::uint64_t age_ms = 0;
  std::string digest;     ///< The page_key, packed.
  std::string caller_key; ///< The caller's key; empty when it is too long to be kept.
};

/// The calls of one client in one key space, over the window.
struct space_calls {
  space_calls() = default;
  std::string door;                         ///< Maker of the space: "sglang", "vllm", "lmcache".
  std::vector<std::string> fields;          ///< Fields of the key space; none: nobody told them.
  std::map<std::string, std::string> facts; ///< Settings of the engine that decide what it asks.
  /// Pages by page_status, of each call_kind: [kind * page_status_count + status].
  std::vector<std::uint64_t> pages;
  /// Pages that the door itself answered with a miss, by the reason.
  std::map<std::string, std::uint64_t> unasked;
  std::vector<failed_page> failed; ///< The newest pages that failed.
};

/// The calls of one client.
struct call_report {
  call_report() = default;
  std::string client;       ///< Name of the client; set by the node.
  bool ended = false;       ///< Whether the session has ended; set by the node.
  std::uint64_t age_ms = 0; ///< How long ago the client said this; set by the node.
  std::vector<space_calls> spaces;
};

/// The calls of all clients of a node.
struct calls_report {
  calls_report() = default;
  std::vector<call_report> clients;
  template <class Inspector>
  friend auto inspect(Inspector& f, calls_report& x) {
    return f(x.clients);
  }
};

/// The way in which a page left a node. The numbers travel.
enum class page_loss : std::uint8_t { evicted, disk_evicted, removed, cleared };

/// A page that left a node.
struct lost_page {
  lost_page() = default;
  std::uint64_t prefix = 0; ///< page_key::prefix.
  std::uint8_t how = 0;     ///< A page_loss.
  std::uint64_t age_ms = 0;
  template <class Inspector>
  friend auto inspect(Inspector& f, lost_page& x) {
    return f(x.prefix, x.how, x.age_ms);
  }
};

/// What a node remembers of pages that it was asked for.
struct lost_report {
  lost_report() = default;
  std::vector<lost_page> pages; ///< The newest losses of each page, up to four.
  template <class Inspector>
  friend auto inspect(Inspector& f, lost_report& x) {
    return f(x.pages);
  }
};

} // namespace peercache::link
