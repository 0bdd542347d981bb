#pragma once

#include "common/result.hpp"
#include "handoff/kv_layout.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace peercache::handoff_stress {

/// What a model's KV looks like in its engine: real numbers of layers, heads and bytes.
struct model_geometry {
  const char* name;
  std::uint32_t layers;
  std::uint32_t rank_heads; ///< KV heads of a rank of the side with more ranks; 0: MLA.
  std::uint32_t head_bytes; ///< Bytes of one head of a token; with MLA, of a token.
  std::uint32_t page_tokens;
};

/// Faults that happen to whole processes, and the mean time between two faults of a kind; 0: never.
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
  std::uint64_t memory_bytes = 256u << 20; ///< KV of each rank, about.
  std::uint32_t tokens_max = 8192;
  bool verbs = false; ///< Pages travel over verbs; else over TCP.
  /// Delay of prefill's messages on their way to decode; pages are not delayed.
  std::chrono::milliseconds messages_later{0};
  process_faults faults;
  std::chrono::milliseconds seconds_max{3'600'000};
  /// A room that has not ended this long after it was posted counts as stuck, and ends the run.
  std::chrono::milliseconds patience{30'000};
  bool stop_at_wrong = false;
  /// Rooms of a guard's profile: some MiB each, and given up while they are read, by one side.
  enum class profile : std::uint8_t { any_room, prefill_aborts, decode_aborts };
  profile rooms_like = profile::any_room;
  std::string guard; ///< The guard whose profile this plan has; empty: none.
  bool guard_off = false;

  std::uint32_t ranks() const noexcept { return prefill_ranks + decode_ranks; }
  std::uint32_t heads() const noexcept {
    return model.rank_heads * (prefill_ranks > decode_ranks ? prefill_ranks : decode_ranks);
  }
  /// Pages of KV that each rank has. If one side has fewer ranks, their pages are larger.
  std::uint32_t pages() const noexcept;
};

/// The abort that is planned for a room, if any: by which rank, and at which step.
struct planned_abort {
  enum class step : std::uint8_t { opened, joined, sending, sent };
  bool wanted = false;
  std::uint32_t rank = 0; ///< Prefill's ranks first, then decode's.
  step when = step::opened;
  std::chrono::microseconds later{0};
};

/// The shape of one request: the same in every process that computes it from the serial.
struct room_plan {
  std::uint32_t prefix_pages = 0;
  std::uint32_t pages = 0;  ///< Pages behind the prefix.
  std::uint32_t window = 0; ///< Pages of the sliding window.
  std::uint32_t chunk_pages = 0;
  planned_abort abort;
};
room_plan plan_of_room(const handoff_plan& plan, std::uint64_t serial);

/// Parses the command line. Errors: `invalid_argument`, with what is wrong, or the help.
result<handoff_plan> parse_plan(int argc, char** argv);

} // namespace peercache::handoff_stress
