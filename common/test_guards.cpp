#include "common/test_guards.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace peercache {
namespace {

constexpr std::array<std::string_view, 20> names = {
    "generation", "incarnation", "checksum",   "key",      "pin",    "session_lock", "fence",
    "view",       "purge",       "withdraw",   "majority", "filled", "epoch",        "adoption",
    "fragment",   "quiet",       "all_pieces", "reread",   "frames", "difference"};
static_assert(names.size() == static_cast<std::size_t>(guard::difference) + 1);

std::uint32_t bit_of(std::size_t index) noexcept {
  return std::uint32_t{1} << index;
}

std::uint32_t bit_of_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name)
      return bit_of(i);
  // A misspelt name ends the program, because it would leave the guard on and prove nothing.
  std::fprintf(stderr, "peercache: PEERCACHE_TEST_GUARDS_OFF: there is no guard \"%.*s\"\n",
               static_cast<int>(name.size()), name.data());
  std::abort();
}

std::uint32_t switched_off_by_environment() noexcept {
  const char* value = std::getenv("PEERCACHE_TEST_GUARDS_OFF");
  std::string_view rest = value != nullptr ? value : "";
  std::uint32_t off = 0;
  while (!rest.empty()) {
    auto comma = rest.find(',');
    if (auto name = rest.substr(0, comma); !name.empty())
      off |= bit_of_name(name);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  return off;
}

std::atomic<std::uint32_t>& off_bits() noexcept {
  static std::atomic<std::uint32_t> bits{switched_off_by_environment()};
  return bits;
}

std::uint32_t number_of_environment(const char* name) noexcept {
  const char* value = std::getenv(name);
  return value != nullptr ? static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10)) : 0;
}

std::array<std::atomic<std::uint32_t>, 13>& fault_settings() noexcept {
  static std::array<std::atomic<std::uint32_t>, 13> settings = {
      number_of_environment("PEERCACHE_TEST_FLIP_ONE_IN"),
      number_of_environment("PEERCACHE_TEST_SEND_CHUNK_BYTES"),
      number_of_environment("PEERCACHE_TEST_SEND_PAUSE_US"),
      number_of_environment("PEERCACHE_TEST_VIEWS_LATE_MS"),
      number_of_environment("PEERCACHE_TEST_SWAP_LOCATIONS_ONE_IN"),
      number_of_environment("PEERCACHE_TEST_DISK_ERROR_PERCENT"),
      number_of_environment("PEERCACHE_TEST_DISK_STALL_MS"),
      number_of_environment("PEERCACHE_TEST_DISK_FAULTS_FOR_MS"),
      number_of_environment("PEERCACHE_TEST_DISK_KILL_POINT"),
      number_of_environment("PEERCACHE_TEST_DISK_KILL_COUNT"),
      number_of_environment("PEERCACHE_TEST_OLD_VIEWS_ONE_IN"),
      number_of_environment("PEERCACHE_TEST_WITHDRAWALS_UNHEARD"),
      number_of_environment("PEERCACHE_TEST_TAKE_OVER_KILL_POINT")};
  return settings;
}

} // namespace

std::uint32_t fault_setting(fault which) noexcept {
  return fault_settings()[static_cast<std::size_t>(which)].load(std::memory_order_relaxed);
}

void set_fault(fault which, std::uint32_t setting) noexcept {
  fault_settings()[static_cast<std::size_t>(which)].store(setting, std::memory_order_relaxed);
}

bool guard_on(guard which) noexcept {
  return (off_bits().load(std::memory_order_relaxed) & bit_of(static_cast<std::size_t>(which))) ==
         0;
}

void set_guard(guard which, bool on) noexcept {
  auto bit = bit_of(static_cast<std::size_t>(which));
  if (on)
    off_bits().fetch_and(~bit, std::memory_order_relaxed);
  else
    off_bits().fetch_or(bit, std::memory_order_relaxed);
}

} // namespace peercache
