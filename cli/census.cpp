#include "cli/census.hpp"

#include <algorithm>

namespace peercache::cli {
namespace {

/// Returns the `most` rows with the largest values of the member `by`, the largest first.
template <class Row, class Number>
std::vector<Row> first_of(std::vector<Row> rows, Number Row::*by, std::size_t most) {
  std::stable_sort(rows.begin(), rows.end(),
                   [by](const Row& a, const Row& b) { return a.*by > b.*by; });
  rows.resize(std::min(rows.size(), most));
  return rows;
}

} // namespace

void census_sum::add(const std::string& node, const link::page_census& said) {
  window_ms_ = std::max(window_ms_, said.window_ms);
  age_ms_ = std::max(age_ms_, said.age_ms);
  for (const auto& page : said.hot) {
    auto known = std::find_if(hot_.begin(), hot_.end(),
                              [&](const auto& one) { return one.digest == page.digest; });
    if (known == hot_.end())
      known = hot_.insert(hot_.end(), {page.digest, 0, 0, 0, {}});
    known->bytes = std::max(known->bytes, page.bytes);
    known->reads += page.reads;
    known->reads_over += page.reads_over;
    known->nodes.push_back(node);
  }
  for (const auto& page : said.big)
    big_.push_back({node, page.digest, page.bytes});
  for (const auto& space : said.spaces) {
    auto known = std::find_if(spaces_.begin(), spaces_.end(),
                              [&](const auto& one) { return one.space == space.space; });
    if (known == spaces_.end())
      known = spaces_.insert(spaces_.end(), {space.space, 0, 0});
    known->pages += space.pages;
    known->bytes += space.bytes;
  }
}

std::vector<hot_page> census_sum::hottest(std::size_t most) const {
  return first_of(hot_, &hot_page::reads, most);
}

std::vector<big_page> census_sum::largest(std::size_t most) const {
  return first_of(big_, &big_page::bytes, most);
}

std::vector<big_space> census_sum::spaces(std::size_t most) const {
  return first_of(spaces_, &big_space::bytes, most);
}

} // namespace peercache::cli
