#pragma once

#include "cli/exit_code.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

/// The outcome of a check, from best to worst.
enum class verdict : std::uint8_t {
  ok,
  info, ///< Neither good nor bad: nothing that was asked for depends on it.
  warn, ///< Works, but worse than this machine could.
  fail  ///< Will not work as configured.
};
std::string_view to_string(verdict given) noexcept;

/// One thing that `peercache doctor` has looked at.
/// Invariant: a check that warns or fails has in `fix` the line that mends it.
struct check {
  std::string name;
  verdict given = verdict::ok;
  std::string found;
  std::string fix; ///< A command, a setting, or empty.
};

/// Checks of one part of the system: "rdma".
struct check_group {
  std::string name;
  std::vector<check> checks;
};

/// `ok` when there is nothing to judge.
verdict worst_of(std::span<const check_group> groups) noexcept;
/// 0 unless something is warned of or fails: then 3.
exit_code exit_code_of(std::span<const check_group> groups) noexcept;

nlohmann::json to_json(std::span<const check_group> groups);
/// Writes one table for each group, each fix below the check that it mends.
std::string to_text(std::span<const check_group> groups, bool colour);

} // namespace peercache::cli
