#pragma once

#include "cli/bench/bench_setup.hpp"
#include "cli/command.hpp"
#include "client/handoff/worker_options.hpp"
#include "handoff/kv_layout.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peercache::cli {

/// Rooms that one measurement hands over: how their KV lies on both sides.
struct handoff_shape {
  std::uint32_t prefill_ranks = 1, decode_ranks = 1;
  std::uint32_t buffers = 64;
  std::uint32_t page_tokens = 64;
  std::uint32_t heads = 8; ///< Heads of the model; each rank has its share.
  std::uint32_t head_bytes = 256;
  std::uint32_t room_pages = 128;
  std::uint32_t rooms = 1; ///< Rooms that are handed over at a time.
  /// Whether the pages are scattered: no page lies behind the previous page of its room, in the
  /// memory of prefill and of decode.
  bool scattered = false;

  std::uint32_t heads_of(std::uint32_t ranks) const noexcept { return heads / ranks; }
  std::uint64_t room_bytes() const noexcept {
    return std::uint64_t{buffers} * page_tokens * heads * head_bytes * room_pages;
  }
  /// Bytes of one rank's KV.
  std::uint64_t memory_bytes(std::uint32_t ranks) const noexcept {
    return room_bytes() / ranks * rooms;
  }
  /// The layout of a rank whose KV is all of this memory.
  handoff::kv_layout layout(std::uint32_t rank, bool prefill, std::span<std::byte> memory) const;
  /// The pages of the n-th room, in the order of the sequence.
  std::vector<std::uint32_t> pages_of(std::uint32_t room, bool prefill) const;
};

/// The RDMA devices of this host that carry the pages of a measurement, one for decode and one for
/// prefill; where there are none, TCP carries the pages.
struct handoff_devices {
  std::string decode, prefill;
};

/// Options of a worker whose pages travel over `device`, or over TCP when `device` is empty.
client::worker_options handoff_worker_options(const std::string& device);

/// Fills a rank's memory with words that say where in the model they belong: head of a token of a
/// page of a buffer.
void fill_kv(const handoff_shape& shape, std::uint32_t ranks, std::uint32_t rank, bool prefill,
             std::span<std::byte> memory);
/// Whether each word is the one that `fill_kv` writes there.
bool kv_is_right(const handoff_shape& shape, std::uint32_t ranks, std::uint32_t rank, bool prefill,
                 std::span<const std::byte> memory);

/// Returns the nanoseconds in which a decode rank plans one piece of a room: from an offer of all
/// pages to the addresses that are read. Errors: the ranks' layouts do not go together.
result<double> plan_ns_per_piece(const handoff_shape& shape);

/// Hands rooms over between the prefill engine, a process of its own, and decode in this process,
/// as engines do: an engine's thread looks at the states of its rooms again and again. Threads:
/// one. Ownership: owns the process. Errors: results; a failed step ends the run.
class handoff_engines {
public:
  /// @param prefill command line of the process that is the prefill engine of this shape
  static result<std::unique_ptr<handoff_engines>> start(const handoff_shape& shape,
                                                        const client::worker_options& decode,
                                                        std::vector<std::string> prefill);
  virtual ~handoff_engines() = default;

  /// Hands `shape.rooms` rooms over `times` times, one time after the other; each call's time is
  /// from the first offer to the last success.
  virtual result<bench::round_sample> hand_over(std::uint32_t times) = 0;
  /// Whether decode has exactly what prefill has.
  virtual bool is_right() const = 0;
  /// Decode's memory; limits are measured into the same memory.
  virtual std::span<std::byte> memory() const = 0;
};

/// Runs the prefill engine of `handoff_engines`: prints its ports, then for each line of stdin
/// hands over as many times as the line says, until stdin ends.
exit_code run_handoff_prefill(const handoff_shape& shape, const std::string& device);

/// Adds `bench handoff`, and the hidden command that is its prefill engine.
void add_handoff_bench(command_line& line, CLI::App& bench);

} // namespace peercache::cli
