#pragma once

#include "cli/exit_code.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

/// The verdict of a check, from best to worst.
enum class verdict : std::uint8_t {
  ok,
  /// Neither good nor bad: nothing that was asked for depends on the checked thing, or the running
  /// node itself uses it, or the check could not be made.
  info,
  warn, ///< The checked thing works, but worse than this machine could.
  fail  ///< The checked thing will not work as configured.
};
std::string_view to_string(verdict given) noexcept;

/// The result of one check of `peercache doctor`.
/// Invariant: a check that warns or fails has in `fix` the line that mends the fault; a check that
/// is shown has an id.
struct check {
  std::string name;
  verdict given = verdict::ok;
  std::string found;
  /// The command or the setting that mends the fault; empty when nothing needs to be mended.
  std::string fix;
  std::string id{}; ///< A name of cli/doctor/check_ids.hpp.
};

/// Returns `given` with this id.
check with_id(const char* id, check given);

/// The checks of one part of the system, such as "rdma".
struct check_group {
  std::string name;
  std::vector<check> checks;
};

/// The worst verdict of all checks; `ok` when there are none.
verdict worst_of(std::span<const check_group> groups) noexcept;
/// The exit code of `peercache doctor`: 0, or 3 when a check warns or fails.
exit_code exit_code_of(std::span<const check_group> groups) noexcept;

nlohmann::json to_json(std::span<const check_group> groups);
/// Writes the checks as text, one table for each group, each fix below its check.
std::string to_text(std::span<const check_group> groups, bool colour);

} // namespace peercache::cli
