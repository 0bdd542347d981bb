#pragma once

#include "cli/exit_code.hpp"
#include "cli/miss_causes.hpp"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace peercache::cli {

/// The answer of `peercache why`. A plain struct; `to_json` and `to_text` cut text that clients
/// chose, and replace bytes in it that are not printable ASCII.
struct why_answer {
  std::uint64_t asked = 0;  ///< Pages that engines asked for.
  std::uint64_t missed = 0; ///< Pages that were missed.
  std::vector<miss_cause> causes;
  std::vector<std::string> silent; ///< Names of nodes that did not answer.
  std::size_t unlocated = 0;       ///< Keys for which the directory did not answer.
};

/// Bytes of a caller's key that are shown.
inline constexpr std::size_t shown_key_bytes_max = 128;

nlohmann::json to_json(const why_answer& answer);
std::string to_text(const why_answer& answer);
/// `degraded`: a node, or the directory for some keys, did not answer; else `failed` when pages
/// were missed.
exit_code exit_code_of(const why_answer& answer) noexcept;

} // namespace peercache::cli
