#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::cli {

enum class output_format : std::uint8_t { table, json };

/// Whether `stream` may get ANSI colour sequences: it is a terminal, NO_COLOR is unset or empty,
/// and TERM is not "dumb".
bool colour_allowed(std::FILE* stream);

/// Columns of the terminal behind `stream`: as COLUMNS says, else as the terminal says. 0: `stream`
/// is not a terminal, so lines may have any length.
std::size_t columns_of(std::FILE* stream);

/// The lines, of at most `width` columns, into which `text` breaks at blanks; longer words are cut.
/// @param width 0: no bound
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// A help text with lines of at most `width` columns: what is said of an option or a command stays
/// in its column, as far as that leaves half of the width. @param width 0: no bound
std::string wrapped_help(std::string_view text, std::size_t width);

/// A table with a head line and aligned columns: numbers to the right, words to the left.
/// Threads: none. Errors: none; missing cells of a short row are empty.
class text_table {
public:
  enum class align : std::uint8_t { left, right };
  struct column {
    std::string head;
    align side = align::left;
  };

  explicit text_table(std::vector<column> columns) : columns_(std::move(columns)) {}

  /// Appends a row. @pre no more cells than columns
  void add_row(std::vector<std::string> cells);

  /// The table as text: one line for each row, ended by a line feed. With `colour` the head line is
  /// bold. Where lines would be longer than `width` columns (0: no bound) the widest columns of
  /// words are made narrower, and their cells go on in further lines; numbers are never broken. A
  /// table that is too wide even so is folded: the columns that do not fit stand, indented, in
  /// lines below, of the head as of each row.
  std::string to_string(bool colour, std::size_t width = columns_of(stdout)) const;

private:
  /// The columns of one line, the first and the one after the last, when the table is folded.
  struct span {
    std::size_t first = 0, end = 0;
  };
  /// Where columns stand in the lines of the table.
  struct layout {
    std::vector<std::size_t> widths; ///< Width of each column.
    /// The columns of each line of a row; several lines: the table is folded.
    std::vector<span> lines;
  };
  layout layout_for(std::size_t at_most) const;
  std::string line_of(const std::vector<std::string>& cells, const layout& at) const;
  std::string part_of(const std::vector<std::string>& cells, const layout& at, span of) const;
  std::vector<column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A list of facts about one thing, such as a node: names on the left, values on the right.
class fact_list {
public:
  void add(std::string name, std::string value) {
    facts_.emplace_back(std::move(name), std::move(value));
  }
  /// The list as text, a line for each fact; a value beyond `width` columns (0: no bound) goes on
  /// in lines below.
  std::string to_string(std::size_t width = columns_of(stdout)) const;

private:
  std::vector<std::pair<std::string, std::string>> facts_;
};

/// Bytes for people: "0 B", "1023 B", "16.0 KiB", "1.5 GiB".
std::string human_bytes(std::uint64_t bytes);
/// A number with separators between thousands: "12,031".
std::string human_count(std::uint64_t count);
/// A share of 1 in percent: 0.3664 is "36.64 %".
std::string human_percent(double share);
/// A duration for people: "85 ms", "12.3 s", "4 min 05 s", "3 h 12 min".
std::string human_duration(std::chrono::milliseconds duration);

/// Progress on a terminal: one line that is drawn over itself, at most ten times a second, and
/// removed by `finish`. Nothing is printed when the stream is not a terminal. Threads: one.
class progress_bar {
public:
  progress_bar(std::FILE* stream, std::string label, std::uint64_t total);
  ~progress_bar() { finish(); }
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  void update(std::uint64_t done, std::string_view note = {});
  void finish();

  /// The text of the progress line, without control characters and at most `width` columns wide.
  static std::string line(std::string_view label, std::uint64_t done, std::uint64_t total,
                          std::string_view note, std::size_t width);

private:
  std::FILE* stream_;
  std::string label_;
  std::uint64_t total_;
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_{};
};

} // namespace peercache::cli
