#pragma once

#include "bench/trace_replay.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace peercache::bench {

/// Options of the trace generator. The defaults give the statistics of one hour of the chat service
/// in Mooncake's published trace (FAST '25): about 24 pages per request, of which about 36 % are
/// prefix hits with unlimited memory.
struct trace_generator_options {
  std::uint64_t seed = 1;
  std::size_t requests = 12031;
  std::uint64_t duration_ms = 3'537'000;
};

/// Generates a trace of conversations with several turns. Every prompt begins with the same system
/// page. A new conversation adds pages of its own, or now and then branches off an earlier one;
/// each further turn repeats the prompt so far, except for its last, half-filled page, and adds
/// pages. The same options give the same trace.
std::vector<trace_request> generate_trace(const trace_generator_options& options);

} // namespace peercache::bench
