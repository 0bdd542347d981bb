#include "cli/doctor/doctor.hpp"

#include "cli/output.hpp"

#include <algorithm>

namespace peercache::cli {

std::string_view to_string(verdict given) noexcept {
  switch (given) {
  case verdict::ok:
    return "ok";
  case verdict::info:
    return "info";
  case verdict::warn:
    return "warn";
  case verdict::fail:
    return "fail";
  }
  return "unknown";
}

check with_id(const char* id, check given) {
  given.id = id;
  return given;
}

verdict worst_of(std::span<const check_group> groups) noexcept {
  auto worst = verdict::ok;
  for (const auto& group : groups)
    for (const auto& one : group.checks)
      worst = std::max(worst, one.given);
  return worst;
}

exit_code exit_code_of(std::span<const check_group> groups) noexcept {
  return worst_of(groups) >= verdict::warn ? exit_code::degraded : exit_code::ok;
}

nlohmann::json to_json(std::span<const check_group> groups) {
  auto all = nlohmann::json::array();
  for (const auto& group : groups) {
    auto checks = nlohmann::json::array();
    for (const auto& one : group.checks)
      checks.push_back({{"id", one.id},
                        {"name", one.name},
                        {"verdict", to_string(one.given)},
                        {"found", one.found},
                        {"fix", one.fix}});
    all.push_back({{"name", group.name}, {"checks", std::move(checks)}});
  }
  return {{"verdict", to_string(worst_of(groups))}, {"groups", std::move(all)}};
}

std::string to_text(std::span<const check_group> groups, bool colour) {
  std::string text;
  for (const auto& group : groups) {
    text_table table({{group.name}, {"VERDICT"}, {"FOUND"}});
    for (const auto& one : group.checks) {
      table.add_row({one.name, std::string(to_string(one.given)), one.found});
      if (!one.fix.empty())
        table.add_row({"", "", "fix: " + one.fix});
    }
    text += (text.empty() ? "" : "\n") + table.to_string(colour);
  }
  return text;
}

} // namespace peercache::cli
