#include "cli/output.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <array>
#include <charconv>
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

/// Columns of a terminal that does not say how many it has.
constexpr std::size_t usual_columns = 80;
/// A column of words is not made narrower than this.
constexpr std::size_t narrowest_column = 10;
/// Blanks between two columns.
constexpr std::size_t column_gap = 2;
/// Blanks before the further lines of a row of a folded table.
constexpr std::size_t fold_indent = 4;

std::size_t terminal_width(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return usual_columns;
  return size.ws_col;
}

void trim_right(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
}

/// How many bytes of `text` its first `columns` columns are.
std::size_t bytes_of(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (; at < text.size(); ++at)
    if ((text[at] & 0xc0) != 0x80 && columns-- == 0)
      break;
  return at;
}

/// Where the second column of a line of help begins; in a line of one column, its first letter.
std::size_t hanging_of(std::string_view line) {
  const auto first = line.find_first_not_of(' ');
  const auto gap = first == std::string_view::npos ? first : line.find("  ", first);
  const auto second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return second != std::string_view::npos ? second : first == std::string_view::npos ? 0 : first;
}

/// A line of help, broken into lines of at most `width` columns.
std::string wrapped_line(std::string_view line, std::size_t width) {
  if (width_of(line) <= width)
    return std::string(line) + "\n";
  constexpr std::size_t usual_hanging = 6;
  auto hanging = hanging_of(line);
  std::string text(line.substr(0, hanging));
  const auto rest = line.substr(hanging);
  if (hanging > width / 2) { // The second column begins a line of its own, further left.
    hanging = std::min(usual_hanging, width / 2);
    trim_right(text);
    text += (text.empty() ? "" : "\n") + std::string(hanging, ' ');
  }
  bool first = true;
  for (const auto& each : wrapped(rest, width - hanging)) {
    text += (first ? "" : std::string(hanging, ' ')) + each + "\n";
    first = false;
  }
  return text;
}

} // namespace

std::size_t columns_of(std::FILE* stream) {
  if (::isatty(::fileno(stream)) == 0)
    return 0;
  std::size_t columns = 0;
  if (const auto* said = std::getenv("COLUMNS"); said != nullptr) {
    const std::string_view text{said};
    std::from_chars(text.data(), text.data() + text.size(), columns);
  }
  return columns != 0 ? columns : terminal_width(stream);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (width != 0 && width_of(text) > width) {
    const auto end = bytes_of(text, width);
    const auto blank = text.rfind(' ', end);
    const bool one_word = blank == std::string_view::npos || text.find_first_not_of(' ') > blank;
    lines.emplace_back(text.substr(0, one_word ? end : blank));
    trim_right(lines.back());
    text.remove_prefix(one_word ? end : blank);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  if (!text.empty() || lines.empty())
    lines.emplace_back(text);
  return lines;
}

std::string wrapped_help(std::string_view text, std::size_t width) {
  if (width == 0)
    return std::string(text);
  std::string all;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    all += wrapped_line(text.substr(0, end), width);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

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

text_table::layout text_table::layout_for(std::size_t at_most) const {
  layout made;
  std::vector<std::size_t> least; // The widths below which a column does not go.
  std::size_t total = 0, total_least = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto head = width_of(columns_[i].head);
    auto width = head;
    for (const auto& row : rows_)
      width = std::max(width, width_of(row[i]));
    const bool number = columns_[i].side == align::right;
    least.push_back(number ? width : std::min(width, std::max(head, narrowest_column)));
    made.widths.push_back(width);
    total += width + (i == 0 ? 0 : column_gap);
    total_least += least.back() + (i == 0 ? 0 : column_gap);
  }
  auto& widths = made.widths;
  if (at_most == 0 || total_least <= at_most) {
    for (; at_most != 0 && total > at_most; --total) {
      std::size_t widest = columns_.size();
      for (std::size_t i = 0; i < columns_.size(); ++i)
        if (widths[i] > least[i] && (widest == columns_.size() || widths[i] > widths[widest]))
          widest = i;
      --widths[widest];
    }
    made.lines.push_back({0, columns_.size()});
    return made;
  }
  std::size_t used = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto room = at_most - std::min(at_most, fold_indent);
    widths[i] = std::min(widths[i], std::max(least[i], room));
    if (i == 0 || used + column_gap + widths[i] > at_most) {
      made.lines.push_back({i, i});
      used = i == 0 ? 0 : fold_indent;
    } else
      used += column_gap;
    used += widths[i];
    made.lines.back().end = i + 1;
  }
  return made;
}

/// The text lines that the columns `of` of one row take.
std::string text_table::part_of(const std::vector<std::string>& cells, const layout& at,
                                span of) const {
  std::vector<std::vector<std::string>> parts;
  std::size_t lines = 1;
  bool empty = true;
  for (auto i = of.first; i < of.end; ++i) {
    parts.push_back(wrapped(cells[i], at.widths[i]));
    lines = std::max(lines, parts.back().size());
    empty = empty && cells[i].empty();
  }
  const auto is_empty = [](const std::string& cell) { return cell.empty(); };
  if (empty && of.first > 0 &&
      std::all_of(cells.begin() + static_cast<std::ptrdiff_t>(of.end), cells.end(), is_empty))
    return {};
  std::string text;
  for (std::size_t each = 0; each < lines; ++each) {
    std::string line(of.first == 0 ? 0 : fold_indent, ' ');
    for (auto i = of.first; i < of.end; ++i) {
      const auto& part = parts[i - of.first];
      line += std::string(i == of.first ? 0 : column_gap, ' ');
      line += padded(each < part.size() ? part[each] : "", at.widths[i], columns_[i].side);
    }
    trim_right(line);
    text += line + "\n";
  }
  return text;
}

std::string text_table::line_of(const std::vector<std::string>& cells, const layout& at) const {
  std::string text;
  for (const auto& part : at.lines)
    text += part_of(cells, at, part);
  return text;
}

std::string text_table::to_string(bool colour, std::size_t width) const {
  const auto at = layout_for(width);
  std::vector<std::string> heads;
  for (const auto& column : columns_)
    heads.push_back(column.head);
  auto text = line_of(heads, at);
  if (colour)
    text = "\x1b[1m" + text.substr(0, text.size() - 1) + "\x1b[0m\n";
  for (const auto& row : rows_)
    text += line_of(row, at);
  return text;
}

std::string fact_list::to_string(std::size_t width) const {
  std::size_t names = 0;
  for (const auto& [name, value] : facts_)
    names = std::max(names, width_of(name));
  const auto hanging = names + 2;
  const auto values = width == 0 ? 0 : std::max(width, hanging + narrowest_column) - hanging;
  std::string text;
  for (const auto& [name, value] : facts_) {
    auto before = padded(name, hanging, text_table::align::left);
    for (const auto& line : wrapped(value, values)) {
      text += before + line + "\n";
      before.assign(hanging, ' ');
    }
  }
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
