#include "common/log.hpp"

#include <chrono>
#include <ctime>
#include <spdlog/details/log_msg.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <string_view>

namespace peercache {
namespace {

std::string_view name_of(spdlog::level::level_enum level) noexcept {
  switch (level) {
  case spdlog::level::trace:
    return "trace";
  case spdlog::level::debug:
    return "debug";
  case spdlog::level::info:
    return "info";
  case spdlog::level::warn:
    return "warn";
  case spdlog::level::err:
    return "error";
  case spdlog::level::critical:
    return "critical";
  default:
    return "off";
  }
}

spdlog::level::level_enum level_of(std::string_view name) noexcept {
  for (auto level : {spdlog::level::trace, spdlog::level::debug, spdlog::level::warn,
                     spdlog::level::err, spdlog::level::off})
    if (name == name_of(level))
      return level;
  return spdlog::level::info;
}

void append(spdlog::memory_buf_t& line, std::string_view text) {
  line.append(text.data(), text.data() + text.size());
}

/// Appends text with escapes: in a JSON string all characters that need one, in a plain line
/// control characters only.
void append_escaped(spdlog::memory_buf_t& line, std::string_view text, bool json) {
  for (char c : text) {
    auto code = static_cast<unsigned char>(c);
    if (c == '\n')
      append(line, "\\n");
    else if (json && (c == '"' || c == '\\'))
      fmt::format_to(std::back_inserter(line), "\\{}", c);
    else if (code < 0x20 || code == 0x7f)
      fmt::format_to(std::back_inserter(line), "\\u{:04x}", code);
    else
      line.push_back(c);
  }
}

void append_time(spdlog::memory_buf_t& line, spdlog::log_clock::time_point time) {
  auto since_epoch = time.time_since_epoch();
  auto ms = std::chrono::floor<std::chrono::milliseconds>(since_epoch).count();
  auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  fmt::format_to(std::back_inserter(line), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
                 utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                 utc.tm_sec, ms % 1000);
}

class line_formatter final : public spdlog::formatter {
public:
  line_formatter(std::string node_name, bool json)
      : node_name_(std::move(node_name)), json_(json) {}

  void format(const spdlog::details::log_msg& record, spdlog::memory_buf_t& line) override {
    append(line, json_ ? "{\"time\":\"" : "");
    append_time(line, record.time);
    append(line, json_ ? "\",\"level\":\"" : " ");
    append(line, name_of(record.level));
    append(line, json_ ? "\",\"node\":\"" : " ");
    append_escaped(line, node_name_, json_);
    append(line, json_ ? "\",\"message\":\"" : " ");
    append_escaped(line, {record.payload.data(), record.payload.size()}, json_);
    append(line, json_ ? "\"}\n" : "\n");
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<line_formatter>(node_name_, json_);
  }

private:
  std::string node_name_;
  bool json_;
};

} // namespace

bool set_log_level(const std::string& level) {
  const auto known = level_of(level);
  if (level != name_of(known))
    return false;
  spdlog::set_level(known);
  return true;
}

std::string log_level() {
  return std::string(name_of(spdlog::get_level()));
}

std::unique_ptr<spdlog::formatter> make_log_formatter(const std::string& node_name, bool json) {
  return std::make_unique<line_formatter>(node_name, json);
}

void init_log(const std::string& node_name, const std::string& level, bool json) {
  auto logger =
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(make_log_formatter(node_name, json));
  logger->set_level(level_of(level));
  spdlog::set_default_logger(std::move(logger));
}

} // namespace peercache
