#include "tests/scenario/runner.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>

namespace peercache::scenario {

outcome run(const script& what) {
  static const char* const folder = std::getenv("PEERCACHE_SCENARIO_HISTORY");
  if (folder == nullptr)
    return cluster(what).run();
  static std::uint64_t runs = 0;
  auto record = tests::history::create(fmt::format("{}/{}-{}.txt", folder, what.seed, runs++), {});
  if (!record) {
    outcome failed;
    failed.faults.push_back(to_string(record.error()));
    return failed;
  }
  return cluster(what, record->get()).run();
}

script shrunk(script failing) {
  auto fails = [](const script& candidate) { return !run(candidate).faults.empty(); };
  for (std::size_t piece = std::max<std::size_t>(failing.steps.size() / 2, 1); piece > 0;
       piece /= 2)
    for (std::size_t at = 0; at < failing.steps.size();) {
      auto shorter = failing;
      auto first = shorter.steps.begin() + static_cast<std::ptrdiff_t>(at);
      auto count = std::min(piece, shorter.steps.size() - at);
      shorter.steps.erase(first, first + static_cast<std::ptrdiff_t>(count));
      if (fails(shorter))
        failing = std::move(shorter);
      else
        at += piece;
    }
  return failing;
}

std::string describe(const script& what, const outcome& came) {
  std::string text = "seed " + std::to_string(what.seed) + ":";
  for (const auto& fault : came.faults)
    text += "\n  " + fault;
  return text + "\nto repeat: PEERCACHE_SCENARIO_SEED=" + std::to_string(what.seed) +
         " scenario_tests --gtest_filter='*the_seed_of_the_environment*'";
}

std::string keep(const script& failing) {
  auto path = std::string(PEERCACHE_SOURCE_DIR) + "/tests/seeds/scenario-" +
              std::to_string(failing.seed) + ".txt";
  std::ofstream(path) << "# Went wrong once; shrunk.\n" << to_text(shrunk(failing));
  return path;
}

std::uint64_t seeds_to_run() {
  if (const char* number = std::getenv("PEERCACHE_SCENARIO_SEEDS"))
    return std::strtoull(number, nullptr, 10);
#ifdef PEERCACHE_SANITIZED
  return 60;
#else
  return 2000;
#endif
}

} // namespace peercache::scenario
