#include "common/log.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <mutex>
#include <spdlog/details/log_msg.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <string_view>
#include <unistd.h>
#include <utility>

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

/// Writes `text`. Returns how many bytes of it `fd` took.
std::size_t write_all(int fd, std::string_view text) noexcept {
  std::size_t done = 0;
  while (done < text.size()) {
    const auto written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

/// Appends lines to a file without a buffer, so that the last words of a process are in it.
class file_sink final : public spdlog::sinks::base_sink<std::mutex> {
public:
  explicit file_sink(std::string path) : path_(std::move(path)) {}
  ~file_sink() override {
    if (fd_ >= 0)
      ::close(fd_);
  }
  file_sink(const file_sink&) = delete;
  file_sink& operator=(const file_sink&) = delete;

  /// Opens the file under its path; when that fails, the file that is open stays in use.
  result<void> open() {
    // A pipe that nobody reads fails at once, and does not block the node.
    const int fresh = ::open(
        path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (fresh < 0)
      return {errc::io_failed,
              fmt::format("cannot open {}: {} (errno {})", path_, std::strerror(errno), errno)};
    const std::lock_guard held(mutex_);
    is_cut_ = false;
    if (const int old = std::exchange(fd_, fresh); old >= 0)
      ::close(old);
    return {};
  }

private:
  void sink_it_(const spdlog::details::log_msg& record) override {
    spdlog::memory_buf_t line;
    formatter_->format(record, line);
    const std::string_view text(line.data(), line.size());
    // If a full disk has cut the previous line short, a newline ends it before this line begins.
    is_cut_ = is_cut_ && write_all(fd_, "\n") == 0;
    const auto written = is_cut_ ? 0 : write_all(fd_, text);
    is_cut_ = is_cut_ || (written > 0 && written < text.size());
    if (written < text.size())
      (void)write_all(STDERR_FILENO, text);
  }
  void flush_() override {}

  const std::string path_;
  int fd_ = -1;
  bool is_cut_ = false; ///< The file may end within a line.
};

} // namespace

result<void> log_to_file(const std::string& path, const std::string& node_name, bool json) {
  auto file = std::make_shared<file_sink>(path);
  if (auto opened = file->open(); !opened)
    return opened;
  file->set_formatter(make_log_formatter(node_name, json));
  spdlog::default_logger_raw()->sinks() = {std::move(file)};
  return {};
}

result<bool> reopen_log() {
  for (const auto& each : spdlog::default_logger_raw()->sinks())
    if (auto* file = dynamic_cast<file_sink*>(each.get())) {
      if (auto opened = file->open(); !opened)
        return opened.error();
      return true;
    }
  return false;
}

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
