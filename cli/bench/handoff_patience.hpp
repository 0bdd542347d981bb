#pragma once

#include "bench/sample_statistics.hpp"

#include <chrono>
#include <sys/prctl.h>
#include <thread>

namespace peercache::cli {

/// Asks again and again, as an engine's scheduler does, until it holds; false when it has not held
/// for a long time. There are pauses between two questions, of microseconds at first: engines have
/// a processor of their own, but here the workers' threads would wait for one that only asks.
template <class Holds>
bool until(Holds&& holds) {
  constexpr auto short_pauses = std::chrono::milliseconds(1);
  constexpr auto patience = std::chrono::seconds(60);
  ::prctl(PR_SET_TIMERSLACK, 1); // The kernel would make a microsecond fifty.
  const auto begin = bench::clock::now();
  while (!holds()) {
    const auto waited = bench::clock::now() - begin;
    if (waited > patience)
      return false;
    std::this_thread::sleep_for(std::chrono::microseconds(waited < short_pauses ? 1 : 50));
  }
  return true;
}

} // namespace peercache::cli
