#include "cli/redact.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace peercache::cli {

namespace {

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Whether the `size` bytes at `at` are not a part of a longer word.
bool stands_alone(const std::string& text, std::size_t at, std::size_t size) {
  const auto end = at + size;
  return (at == 0 || !is_of_word(text[at - 1]) || !is_of_word(text[at])) &&
         (end == text.size() || !is_of_word(text[end]) || !is_of_word(text[end - 1]));
}

std::string without(std::string text, const std::vector<std::string>& secrets) {
  for (const auto& secret : secrets)
    for (auto at = text.find(secret); at != std::string::npos;) {
      const bool is_it = stands_alone(text, at, secret.size());
      if (is_it)
        text.replace(at, secret.size(), redacted);
      at = text.find(secret, at + (is_it ? std::char_traits<char>::length(redacted) : 1));
    }
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
      all[name] = cleaned(value, secrets);
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

std::vector<std::string> cluster_names_in(const nlohmann::json& document) {
  std::vector<std::string> names;
  if (document.is_string()) {
    constexpr std::string_view before = "cluster '";
    const auto& text = document.get_ref<const std::string&>();
    for (auto at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
      const auto begin = at + before.size();
      const auto end = text.find('\'', begin);
      if (end != std::string::npos)
        names.push_back(text.substr(begin, end - begin));
    }
  } else if (document.is_structured()) {
    for (const auto& each : document) {
      const auto more = cluster_names_in(each);
      names.insert(names.end(), more.begin(), more.end());
    }
  }
  return names;
}

} // namespace peercache::cli
