#pragma once

#include "tests/scenario/cluster.hpp"

#include <cstdint>
#include <string>

namespace peercache::scenario {

/// Runs a script. If PEERCACHE_SCENARIO_HISTORY names a folder, the run is recorded in "<seed>-<how
/// many runs before>.txt" there.
outcome run(const script& what);

/// Returns a part of the script's steps that still fails, found by leaving out ever smaller pieces.
/// @pre the script fails
script shrunk(script failing);

/// Describes what went wrong and how to see it again.
std::string describe(const script& what, const outcome& came);

/// Shrinks the script, writes it to tests/seeds/ and returns the path.
std::string keep(const script& failing);

/// Number of random clusters that the tests run: PEERCACHE_SCENARIO_SEEDS, else 2,000, with
/// sanitizers 60.
std::uint64_t seeds_to_run();

} // namespace peercache::scenario
