#include "cli/redact.hpp"

#include <algorithm>

namespace peercache::cli {

namespace {

std::string without(std::string text, const std::vector<std::string>& secrets) {
  for (const auto& secret : secrets)
    for (auto at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + std::char_traits<char>::length(redacted)))
      text.replace(at, secret.size(), redacted);
  return text;
}

nlohmann::json cleaned(const nlohmann::json& from, const std::vector<std::string>& secrets) {
  if (from.is_string())
    return without(from.get<std::string>(), secrets);
  if (from.is_array()) {
    auto all = nlohmann::json::array();
    for (const auto& each : from)
      all.push_back(cleaned(each, secrets));
    return all;
  }
  if (from.is_object()) {
    auto all = nlohmann::json::object();
    for (const auto& [name, value] : from.items())
      all[without(name, secrets)] = cleaned(value, secrets);
    return all;
  }
  return from;
}

} // namespace

nlohmann::json redact(const nlohmann::json& document, std::vector<std::string> secrets) {
  std::erase(secrets, "");
  std::sort(secrets.begin(), secrets.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return cleaned(document, secrets);
}

} // namespace peercache::cli
