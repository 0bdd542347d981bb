#include "cli/output.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

/// Columns that `text` takes on a terminal: all its bytes except UTF-8 continuation bytes.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(std::string_view text, std::size_t width, text_table::align side) {
  std::string blanks(width - std::min(width, width_of(text)), ' ');
  return side == text_table::align::left ? std::string(text) + blanks : blanks + std::string(text);
}

std::size_t terminal_width(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return 80;
  return size.ws_col;
}

void trim_right(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
}

} // namespace

bool colour_allowed(std::FILE* stream) {
  const auto* no_colour = std::getenv("NO_COLOR");
  const auto* terminal = std::getenv("TERM");
  return ::isatty(::fileno(stream)) == 1 && (no_colour == nullptr || *no_colour == '\0') &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

void text_table::add_row(std::vector<std::string> cells) {
  PEERCACHE_ASSERT(cells.size() <= columns_.size());
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> text_table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto width = width_of(columns_[i].head);
    for (const auto& row : rows_)
      width = std::max(width, width_of(row[i]));
    widths.push_back(width);
  }
  return widths;
}

std::string text_table::to_string(bool colour) const {
  auto column_widths = widths();
  std::string text;
  auto append = [&](auto cell_of, bool bold) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      line += i == 0 ? "" : "  ";
      line += padded(cell_of(i), column_widths[i], columns_[i].side);
    }
    trim_right(line);
    text += bold ? "\x1b[1m" + line + "\x1b[0m\n" : line + "\n";
  };
  append([&](std::size_t i) -> const std::string& { return columns_[i].head; }, colour);
  for (const auto& row : rows_)
    append([&](std::size_t i) -> const std::string& { return row[i]; }, false);
  return text;
}

std::string fact_list::to_string() const {
  std::size_t width = 0;
  for (const auto& [name, value] : facts_)
    width = std::max(width, width_of(name));
  std::string text;
  for (const auto& [name, value] : facts_)
    text += padded(name, width, text_table::align::left) + "  " + value + "\n";
  return text;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024)
    return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string human_count(std::uint64_t count) {
  auto digits = std::to_string(count);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<std::size_t>(i), ",");
  return digits;
}

std::string human_percent(double share) {
  return fmt::format("{:.2f} %", share * 100);
}

std::string human_duration(std::chrono::milliseconds duration) {
  auto ms = duration.count();
  if (ms < 1000)
    return fmt::format("{} ms", ms);
  if (ms < 60'000)
    return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  auto seconds = ms / 1000;
  if (seconds < 3600)
    return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
}

progress_bar::progress_bar(std::FILE* stream, std::string label, std::uint64_t total)
    : stream_(stream), label_(std::move(label)), total_(total),
      enabled_(::isatty(::fileno(stream)) == 1) {}

std::string progress_bar::line(std::string_view label, std::uint64_t done, std::uint64_t total,
                               std::string_view note, std::size_t width) {
  auto share =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  constexpr std::size_t bar_width = 24;
  auto filled = static_cast<std::size_t>(share * bar_width);
  auto text = fmt::format("{} [{}{}] {:3.0f} % {}/{}{}{}", label, std::string(filled, '#'),
                          std::string(bar_width - filled, '.'), share * 100, human_count(done),
                          human_count(total), note.empty() ? "" : "  ", note);
  if (text.size() > width)
    text.resize(width);
  return text;
}

void progress_bar::update(std::uint64_t done, std::string_view note) {
  auto now = std::chrono::steady_clock::now();
  if (!enabled_ || (now < next_draw_ && done < total_))
    return;
  next_draw_ = now + std::chrono::milliseconds(100);
  fmt::print(stream_, "\r\x1b[K{}", line(label_, done, total_, note, terminal_width(stream_) - 1));
  std::fflush(stream_);
  drawn_ = true;
}

void progress_bar::finish() {
  if (drawn_)
    fmt::print(stream_, "\r\x1b[K");
  std::fflush(stream_);
  drawn_ = false;
}

} // namespace peercache::cli
