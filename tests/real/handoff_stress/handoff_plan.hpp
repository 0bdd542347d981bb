#pragma once

#include "common/result.hpp"
#include "handoff/kv_layout.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace peercache::handoff_stress {

/// The layout of a model's KV cache in an engine, with the numbers of layers, heads and bytes of a
/// real model.
struct model_geometry {
  const char* name;
  std::uint32_t layers;
  std::uint32_t rank_heads; ///< KV heads of a rank of the side with more ranks; 0: MLA.
  std::uint32_t head_bytes; ///< Bytes of one head of one token; with MLA, bytes of one token.
  std::uint32_t page_tokens;
};

/// Mean times between two faults of whole processes, by kind of fault; 0: this kind never happens.
struct process_faults {
  std::chrono::milliseconds kill_every{0};
  std::chrono::milliseconds freeze_every{0};
};

/// The plan of one run. `apply_guard_profile` changes the parts that make one guard's absence show.
struct handoff_plan {
  std::uint64_t rooms = 100'000;
  std::uint64_t seed = 1;
  std::uint32_t rooms_at_a_time = 64;
  std::uint32_t aborted_percent = 20;
  model_geometry model;
  std::uint32_t prefill_ranks = 1, decode_ranks = 1;
  std::vector<handoff::state_type> states;
  std::uint64_t memory_bytes = 256u << 20; ///< Approximate bytes of KV cache of each rank.
  std::uint32_t tokens_max = 8192;
  bool verbs = false;   ///< Whether pages are transferred over verbs; false: over TCP.
  bool windows = false; ///< Whether decode, over verbs, is told keys of memory windows.
  /// Time by which a relay delays prefill's messages to decode; pages are not delayed.
  std::chrono::milliseconds messages_later{0};
  process_faults faults;
  std::chrono::milliseconds seconds_max{3'600'000};
  /// A room that has not ended this long after it was posted counts as stuck, and ends the run.
  std::chrono::milliseconds patience{30'000};
  bool stop_at_wrong = false;
  /// Which rooms the plan draws. In the profile of a guard rooms have some MiB, and one side aborts
  /// them while they are read.
  enum class profile : std::uint8_t { any_room, prefill_aborts, decode_aborts };
  profile rooms_like = profile::any_room;
  /// The guard for which `apply_guard_profile` has changed this plan; empty: none.
  std::string guard;
  bool guard_off = false;

  std::uint32_t ranks() const noexcept { return prefill_ranks + decode_ranks; }
  std::uint32_t heads() const noexcept {
    return model.rank_heads * (prefill_ranks > decode_ranks ? prefill_ranks : decode_ranks);
  }
  /// Returns the number of KV pages of each rank, the same on both sides: where a side has fewer
  /// ranks, their pages are larger.
  std::uint32_t pages() const noexcept;
};

/// The abort that is planned for a room, if any: by which rank, and at which step.
struct planned_abort {
  enum class step : std::uint8_t { opened, joined, sending, sent };
  bool wanted = false;
  /// Index of the rank that aborts, counted over prefill's ranks and then decode's.
  std::uint32_t rank = 0;
  step when = step::opened;
  std::chrono::microseconds later{0};
};

/// The shape of one request: the same in every process that computes it from the serial.
struct room_plan {
  std::uint32_t prefix_pages = 0;
  std::uint32_t pages = 0;  ///< Pages that follow the prefix.
  std::uint32_t window = 0; ///< Pages in the sliding window.
  std::uint32_t chunk_pages = 0;
  planned_abort abort;
};
room_plan plan_of_room(const handoff_plan& plan, std::uint64_t serial);

/// Parses the command line. Errors: `invalid_argument`, with what is wrong, or the help.
result<handoff_plan> parse_plan(int argc, char** argv);

} // namespace peercache::handoff_stress
