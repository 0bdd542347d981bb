#pragma once

#include "tests/scenario/cluster.hpp"

#include <cstdint>
#include <string>

namespace peercache::scenario {

/// Recorded when PEERCACHE_SCENARIO_HISTORY names a folder: in "<seed>-<how many runs before>.txt".
outcome run(const script& what);

/// A part of the script's steps that still fails, found by leaving out ever smaller pieces.
/// @pre it fails
script shrunk(script failing);

/// What went wrong and how to see it again.
std::string describe(const script& what, const outcome& came);

/// Shrinks the script, writes it to tests/seeds/ and returns where.
std::string keep(const script& failing);

/// PEERCACHE_SCENARIO_SEEDS, else 2,000, with sanitizers 60: how many random clusters the tests
/// run.
std::uint64_t seeds_to_run();

} // namespace peercache::scenario
