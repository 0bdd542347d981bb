// The part of miss_search that adds verdicts up to all misses.

#include "cli/miss_causes.hpp"
#include "cli/miss_words.hpp"
#include "common/page_status.hpp"

#include <algorithm>
#include <tuple>

namespace peercache::cli {
namespace {

using link::call_kind;

/// The rows of the answer: causes with the same name, door, space and differences are one row.
class cause_table {
public:
  miss_cause& at(const link::space_calls& in, miss_cause&& one) {
    one.door = in.door;
    one.space = in.fields.empty() ? "?" : in.fields.front();
    // Details contain times, so causes that differ only in details share a row.
    auto [row, is_new] =
        rows_.try_emplace({one.cause, one.door, one.space, one.differs}, std::move(one));
    return row->second;
  }

  std::vector<miss_cause> sorted() && {
    std::vector<miss_cause> all;
    for (auto& [key, row] : rows_)
      all.push_back(std::move(row));
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.pages > b.pages; });
    return all;
  }

private:
  std::map<std::tuple<std::string, std::string, std::string, std::vector<key_difference>>,
           miss_cause>
      rows_;
};

/// The part of `pages` that sample `index` stands for: all samples get equal parts, the first ones
/// one page more while pages are left over.
std::uint64_t part_of(std::uint64_t pages, std::size_t samples, std::size_t index) {
  return pages / samples + (index < pages % samples ? 1 : 0);
}

} // namespace

std::vector<miss_cause> miss_search::causes(const fate_map& fates) const {
  cause_table table;
  const auto add = [&](const use& of, const link::failed_page& page, std::uint64_t pages) {
    auto said = judge(of, page, fates);
    auto& row = table.at(*of.calls, {.cause = std::move(said.cause),
                                     .differs = std::move(said.differs),
                                     .detail = std::move(said.detail),
                                     .fix = std::move(said.fix)});
    row.pages += pages;
    // Numbers by status are complete: only `not_found` needs a judgement of each page.
    const bool is_not_found = page.status == static_cast<std::uint8_t>(page_status::not_found);
    row.sampled += !is_not_found ? pages : page.digest.empty() ? 0 : 1;
    if (row.digest.empty() && !page.digest.empty()) {
      row.key = page.caller_key;
      row.digest = to_string(digest_of(page));
      row.age_ms = page.age_ms + of.told_ago_ms;
    }
  };
  for (const auto& one : uses_)
    for (std::size_t i = 0; i < 2 * page_status_count; ++i) {
      const auto status = static_cast<page_status>(i % page_status_count);
      const auto kind = static_cast<std::uint8_t>(i / page_status_count);
      if (i >= one.calls->pages.size() || one.calls->pages[i] == 0 || status == page_status::hit)
        continue;
      std::vector<const link::failed_page*> samples;
      for (const auto& page : one.calls->failed)
        if (page.call == kind && page.status == static_cast<std::uint8_t>(status) &&
            page.digest.size() == sizeof(page_key))
          samples.push_back(&page);
      link::failed_page unnamed; // Stands for pages of which only the number is known.
      unnamed.status = static_cast<std::uint8_t>(status);
      if (samples.empty())
        samples.push_back(&unnamed);
      for (std::size_t k = 0; k < samples.size(); ++k)
        if (const auto pages = part_of(one.calls->pages[i], samples.size(), k); pages > 0)
          add(one, *samples[k], pages);
    }
  auto all = std::move(table).sorted();
  add_unasked(all);
  add_never_asked(all);
  return all;
}

void miss_search::add_unasked(std::vector<miss_cause>& to) const {
  for (const auto& one : spaces_)
    for (const auto& [reason, pages] : one.sum.unasked) {
      auto words = words_of_unasked(reason);
      miss_cause row{.cause = std::move(words.cause),
                     .door = one.sum.door,
                     .space = one.sum.fields.empty() ? "?" : one.sum.fields.front(),
                     .pages = pages,
                     .sampled = pages,
                     .detail = std::move(words.detail),
                     .fix = std::move(words.fix)};
      to.push_back(std::move(row));
    }
  std::stable_sort(to.begin(), to.end(),
                   [](const auto& a, const auto& b) { return a.pages > b.pages; });
}

/// When nobody asks for any page: adds a row for each space in which pages are stored.
void miss_search::add_never_asked(std::vector<miss_cause>& to) const {
  if (asked_ > 0)
    return;
  for (const auto& one : spaces_) {
    std::uint64_t stored = 0;
    for (std::size_t i = 2 * page_status_count; i < one.sum.pages.size(); ++i)
      stored += one.sum.pages[i];
    if (one.sum.fields.empty() || stored == 0)
      continue;
    auto words = words_of_never_asked(one.sum.door);
    miss_cause row{.cause = std::move(words.cause),
                   .door = one.sum.door,
                   .space = one.sum.fields.front(),
                   .detail = std::move(words.detail),
                   .fix = std::move(words.fix)};
    to.push_back(std::move(row));
  }
}

} // namespace peercache::cli
