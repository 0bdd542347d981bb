#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace peercache::link {

// What a client notes of its calls, and what a node knows of the pages that it has and of pages
// that left it. `peercache why` joins the two to the cause of each miss; `slow`, `hotkeys`,
// `bigkeys`, `sessions` and `key explain` show them. Times travel as ages, since clocks of hosts
// differ. Another field is another `wire_version`.

/// The calls that a client notes. The numbers travel.
enum class call_kind : std::uint8_t { exists, get, set };
inline constexpr std::size_t call_kinds = 3;

/// For how long calls and lost pages count, in ms.
inline constexpr std::uint64_t calls_window_ms = 300'000;

/// A page that `exists` or `get` missed, or that `set` did not store.
struct failed_page {
  failed_page() = default;
  std::uint8_t call = 0;   ///< A call_kind.
  std::uint8_t status = 0; ///< A page_status.
  std::uint64_t age_ms = 0;
  std::string digest;     ///< The page_key, packed.
  std::string caller_key; ///< The caller's key; empty when it is too long to be kept.
};

/// The calls of one client in one key space, over the last `calls_window_ms`.
struct space_calls {
  space_calls() = default;
  std::uint64_t space = 0;         ///< The space_id of the key space.
  std::string door;                ///< Maker of the space: "sglang", "vllm", "lmcache".
  std::vector<std::string> fields; ///< Fields of the key space; none: nobody told them.
  /// Settings of the engine that decide what the engine asks.
  std::map<std::string, std::string> facts;
  /// Pages by page_status, of each call_kind: [kind * page_status_count + status].
  std::vector<std::uint64_t> pages;
  /// Pages that `door` itself answered with a miss, without a call of the client, by the reason.
  std::map<std::string, std::uint64_t> unasked;
  std::vector<failed_page> failed; ///< The newest pages that failed.
};

/// What a call can wait for besides its own work. The numbers travel.
enum class call_wait : std::uint8_t {
  nothing,   ///< The call's own work: copies and checksums.
  directory, ///< The answer of a directory owner.
  peer,      ///< Bytes of pages from another node's memory.
  disk,      ///< A node that brings pages from its disk into its pool.
  room,      ///< Slots in the pool of the client's host.
};
inline constexpr std::size_t call_wait_kinds = 5;

/// A call that took long.
struct slow_call {
  slow_call() = default;
  std::uint8_t call = 0;       ///< A call_kind.
  std::uint8_t waited_for = 0; ///< A call_wait: the longest wait of the call.
  std::uint32_t pages = 0;
  std::uint32_t failed = 0; ///< Pages that were not found, or not stored.
  std::uint64_t age_ms = 0; ///< Time from the end of the call to the client's report.
  std::uint64_t took_us = 0;
  std::uint64_t waited_us = 0; ///< How long the longest wait took.
  std::string peer;            ///< Name of the node that was waited for; empty: several, or none.
  std::string digest;          ///< The call's first page_key, packed.
};

/// How many pages a client has named in one space since the client's start, whoever made the keys.
struct space_use {
  space_use() = default;
  std::uint64_t space = 0;          ///< A space_id.
  std::vector<std::uint64_t> pages; ///< Number of pages, by call_kind.
};

/// The calls of one client.
struct call_report {
  call_report() = default;
  std::string client;       ///< Name of the client; set by the node.
  bool ended = false;       ///< Whether the session has ended; set by the node.
  std::uint64_t age_ms = 0; ///< Age of the client's report; set by the node.
  std::vector<space_calls> spaces;
  std::vector<slow_call> slow; ///< The slowest calls of the last `calls_window_ms`.
  std::vector<space_use> uses;
  std::string data_plane; ///< How the client reads from other hosts: "verbs" or "tcp: REASON".
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
enum class page_loss : std::uint8_t {
  evicted,
  disk_evicted,
  removed,
  cleared,
  replaced,    ///< A page of another length was set under the same key.
  holder_gone, ///< The process that had the page is gone; an owner of the key remembers it.
};
inline constexpr std::size_t page_losses = 6;

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

/// What a node remembers of how the asked pages left it.
struct lost_report {
  lost_report() = default;
  std::vector<lost_page> pages; ///< The newest losses of each page, up to four.
  template <class Inspector>
  friend auto inspect(Inspector& f, lost_report& x) {
    return f(x.pages);
  }
};

/// A page of a node's pool.
struct counted_page {
  counted_page() = default;
  std::string digest; ///< The page_key, packed.
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0;      ///< Reads within `page_census::window_ms`: at most this many.
  std::uint64_t reads_over = 0; ///< By how much `reads` may be too high.
  template <class Inspector>
  friend auto inspect(Inspector& f, counted_page& x) {
    return f(x.digest, x.bytes, x.reads, x.reads_over);
  }
};

/// The pages of one space in a node's pool.
struct counted_space {
  counted_space() = default;
  /// A space_id; 0: all spaces beyond those that are counted one by one.
  std::uint64_t space = 0;
  std::uint64_t pages = 0;
  std::uint64_t bytes = 0;
  template <class Inspector>
  friend auto inspect(Inspector& f, counted_space& x) {
    return f(x.space, x.pages, x.bytes);
  }
};

/// What lies in a node's pool, and which pages are read most.
struct page_census {
  page_census() = default;
  /// Age of `big` and `spaces`, for which the pool is walked from time to time.
  std::uint64_t age_ms = 0;
  std::uint64_t window_ms = 0;   ///< For how long the reads of `hot` were counted.
  std::vector<counted_page> hot; ///< The most-read pages, in falling order of reads.
  std::vector<counted_page> big; ///< The largest pages, the largest one first.
  std::vector<counted_space> spaces;
  template <class Inspector>
  friend auto inspect(Inspector& f, page_census& x) {
    return f(x.age_ms, x.window_ms, x.hot, x.big, x.spaces);
  }
};

} // namespace peercache::link
