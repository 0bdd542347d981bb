#include "stress_ledger.hpp"

#include <fmt/format.h>
#include <fstream>

namespace peercache::stress {

namespace {

/// Returns the kernel's line (/proc/pressure/cpu) on the share of the last seconds in which a
/// process waited for a processor.
std::string processor_pressure() {
  std::ifstream file("/proc/pressure/cpu");
  std::string line;
  std::getline(file, line);
  return line.substr(0, line.find(" avg60"));
}

} // namespace

tests::history::call_number stress_ledger::note_call(std::string_view what, std::string_view by,
                                                     std::chrono::steady_clock::time_point begin,
                                                     std::chrono::steady_clock::time_point until,
                                                     const thread_times& before) {
  auto now = std::chrono::steady_clock::now();
  const auto after = thread_times::now();
  auto late = now - until;
  if (late > overrun_allowed)
    late -= stalls.stood_still(until, now);
  auto late_us = std::chrono::duration_cast<std::chrono::microseconds>(late).count();
  calls += 1;
  if (late > overrun_allowed) {
    using milliseconds = std::chrono::duration<double, std::milli>;
    deadline_overruns += 1;
    add_example(fmt::format("a {} with a deadline of {:.1f} ms took {:.1f} ms, {}; all stood still "
                            "for {:.1f} ms; processors: {}",
                            what, milliseconds(until - begin).count(),
                            milliseconds(now - begin).count(), times_between(before, after),
                            milliseconds(now - until - late).count(), processor_pressure()));
  }
  for (auto most = latest_return_us.load(); late_us > most;)
    if (latest_return_us.compare_exchange_weak(most, late_us))
      break;
  if (record == nullptr)
    return 0;
  const auto call = record->ask(begin, until, by, what);
  record->returned(call, now);
  return call;
}

void stress_ledger::report_wrong(std::uint32_t key, const bench::page_check& check,
                                 std::uint64_t bytes, page_origin origin) {
  wrong_bytes += bytes;
  wrong_pages += 1;
  add_example(fmt::format("key {}: {} wrong bytes, found key {} version {}, newest {}, from {}",
                          key, bytes, check.found_id, check.version, newest_version(key),
                          to_string(origin)));
}

void stress_ledger::add_example(std::string text) {
  std::lock_guard guard(lock_);
  if (examples_.size() < examples_max)
    examples_.push_back(std::move(text));
}

std::vector<std::string> stress_ledger::examples() const {
  std::lock_guard guard(lock_);
  return examples_;
}

} // namespace peercache::stress
