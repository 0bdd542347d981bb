#pragma once

#include "common/page_origin.hpp"
#include "common/page_status.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace peercache::link {

/// Length of the steps, by a node's time of day, in which the node remembers the last hour.
inline constexpr std::uint64_t history_step_ms = 10'000;
inline constexpr std::size_t history_points_max = 360;
/// How many events a node remembers; the oldest ones are dropped.
inline constexpr std::size_t events_max = 256;

/// What happened at one node within one step. Travels as it lies in memory, little-endian, many in
/// one std::string (link/protocol/pool_wire.hpp): any change is another `wire_version`.
struct history_point {
  std::uint64_t number = 0;  ///< Counts the points of a process, from 1.
  std::uint64_t unix_ms = 0; ///< The node's time of day at the end of the step.
  std::uint64_t span_ms = 0; ///< How long the step really was.
  /// Pages that local clients got, by page_source_words.
  std::array<std::uint64_t, page_source_words.size()> hits{};
  /// Pages that local clients missed, by page_status.
  std::array<std::uint64_t, page_status_count> misses{};
  std::uint64_t get_bytes = 0, set_bytes = 0; ///< Bytes that local clients got and stored.
  std::uint64_t sent_bytes = 0;               ///< Bytes that were sent to other hosts.
  std::uint64_t evictions = 0;                ///< Pages that left the pool to make room.
  std::uint64_t disk_evictions = 0;           ///< Pages that left the disk to make room.
  std::uint64_t pool_bytes = 0;               ///< Bytes of the pool in use at the step's end.
  std::uint64_t disk_queue_bytes = 0;         ///< Bytes to be written to disk at the step's end.
  /// Rooms of local workers that succeeded, and their bytes: of prefill, then of decode.
  std::array<std::uint64_t, 2> rooms_handed_over{}, bytes_handed_over{};
  /// p50, p90 and p99 of the get calls' latency; 0: no calls.
  std::array<std::uint64_t, 3> get_ns{};
  /// p50, p90 and p99 of the set calls' latency; 0: no calls.
  std::array<std::uint64_t, 3> set_ns{};
  bool operator==(const history_point&) const = default;
};
static_assert(sizeof(history_point) == 320 && std::is_trivially_copyable_v<history_point>);

/// Something that happened to a node or to the cluster's members, as seen by the node that reports
/// it.
struct node_event {
  node_event() = default;
  node_event(std::uint64_t when, std::string what, std::string who, std::string words,
             bool is_over = false)
      : unix_ms(when), kind(std::move(what)), node(std::move(who)), text(std::move(words)),
        over(is_over) {}
  std::uint64_t number = 0; ///< Counts the events of a process, from 1.
  /// Time of the event in ms since 1970, by the clock of the node that saw it.
  std::uint64_t unix_ms = 0;
  /// "joined", "left", "restarted", "gone", or a name of common/fault_ids.hpp: an incident.
  std::string kind;
  std::string node; ///< Name of the node that the event happened to.
  std::string text;
  bool over = false; ///< The incident has ended.
  bool operator==(const node_event&) const = default;
  template <class Inspector>
  friend auto inspect(Inspector& f, node_event& x) {
    return f(x.number, x.unix_ms, x.kind, x.node, x.text, x.over);
  }
};

/// What a node remembers: at most `history_points_max` points and `events_max` events.
struct history_report {
  history_report() = default;
  std::string points; ///< Packed history_points, the oldest first.
  std::vector<node_event> events;
  template <class Inspector>
  friend auto inspect(Inspector& f, history_report& x) {
    return f(x.points, x.events);
  }
};

} // namespace peercache::link
