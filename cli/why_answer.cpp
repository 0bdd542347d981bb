#include "cli/why_answer.hpp"

#include "cli/key_spaces.hpp"
#include "cli/output.hpp"
#include "common/printable.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

namespace peercache::cli {
namespace {

double share_of(const miss_cause& one, std::uint64_t missed) {
  return missed == 0 ? 0 : static_cast<double>(one.pages) / static_cast<double>(missed);
}

/// A caller's key as text: the key itself, or its bytes in hex where some cannot be printed.
std::string key_text(std::string_view key) {
  const auto begin = key.substr(0, shown_key_bytes_max);
  const auto* rest = begin.size() < key.size() ? "..." : "";
  if (std::all_of(begin.begin(), begin.end(), [](char c) { return c >= ' ' && c <= '~'; }))
    return fmt::format("{}{}", begin, rest);
  std::string hex;
  for (const unsigned char byte : begin)
    hex += fmt::format("{:02x}", byte);
  return hex + rest;
}

nlohmann::json cause_json(const miss_cause& one, std::uint64_t missed) {
  auto differs = nlohmann::json::array();
  for (const auto& each : one.differs)
    differs.push_back({{"field", peer_text(each.field)},
                       {"asked", peer_text(each.asked)},
                       {"stored", peer_text(each.stored)}});
  auto example = nlohmann::json();
  if (!one.digest.empty())
    example = {{"key", key_text(one.key)}, {"digest", one.digest}, {"age_ms", one.age_ms}};
  return {{"cause", peer_text(one.cause)},
          {"door", peer_text(one.door)},
          {"space", peer_text(one.space)},
          {"pages", one.pages},
          {"sampled", one.sampled},
          {"share", share_of(one, missed)},
          {"differs", differs},
          {"detail", peer_text(one.detail)},
          {"fix", peer_text(one.fix)},
          {"example", example}};
}

std::string cause_text(const miss_cause& one, std::uint64_t missed) {
  auto text = fmt::format("{:5.1f} %  {}  {} pages, {} {}\n         {}\n",
                          100 * share_of(one, missed), peer_text(one.cause), human_count(one.pages),
                          peer_text(one.door), peer_text(one.space), peer_text(one.detail));
  for (const auto& each : one.differs)
    text += fmt::format("         {}: asked with {}, stored with {}\n", peer_text(each.field),
                        peer_text(each.asked), peer_text(each.stored));
  if (!one.digest.empty())
    text += fmt::format("         for example {} ({}), {:.1f} s ago\n",
                        one.key.empty() ? "a page" : key_text(one.key), one.digest,
                        static_cast<double>(one.age_ms) / 1000);
  return text + fmt::format("         fix: {}\n", peer_text(one.fix));
}

} // namespace

nlohmann::json to_json(const why_answer& answer) {
  auto rows = nlohmann::json::array();
  for (const auto& one : answer.causes)
    rows.push_back(cause_json(one, answer.missed));
  return {{"asked", answer.asked}, {"missed", answer.missed}, {"window_ms", link::calls_window_ms},
          {"causes", rows},        {"silent", answer.silent}, {"unlocated", answer.unlocated}};
}

std::string to_text(const why_answer& answer) {
  auto text =
      fmt::format("{} of {} pages missed in the last {} minutes\n", human_count(answer.missed),
                  human_count(answer.asked), link::calls_window_ms / 60'000);
  for (const auto& one : answer.causes)
    text += "\n" + cause_text(one, answer.missed);
  if (!answer.silent.empty())
    text += fmt::format("\ndo not answer: {}\n", fmt::join(answer.silent, ", "));
  if (answer.unlocated > 0)
    text += fmt::format("\nthe directory did not answer for {} keys\n", answer.unlocated);
  return text;
}

exit_code exit_code_of(const why_answer& answer) noexcept {
  if (!answer.silent.empty() || answer.unlocated > 0)
    return exit_code::degraded;
  return answer.missed > 0 ? exit_code::failed : exit_code::ok;
}

} // namespace peercache::cli
