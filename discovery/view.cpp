#include "discovery/view.hpp"

#include <algorithm>

namespace peercache::discovery {

namespace {

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

/// Returns the digits of `text` that start at `at`, without leading zeros, and moves `at` behind
/// them. Callers compare numbers by length and then as text, so that numbers of any size work.
std::string_view take_number(std::string_view text, std::size_t& at) noexcept {
  while (at < text.size() && text[at] == '0')
    ++at;
  auto start = at;
  while (at < text.size() && is_digit(text[at]))
    ++at;
  return text.substr(start, at - start);
}

/// Compares host names in natural order. Negative, zero or positive, as strcmp does.
int natural_compare(std::string_view a, std::string_view b) noexcept {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      auto x = take_number(a, i);
      auto y = take_number(b, j);
      if (x.size() != y.size())
        return x.size() < y.size() ? -1 : 1;
      if (int order = x.compare(y); order != 0)
        return order;
    } else {
      if (a[i] != b[j])
        return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]) ? -1 : 1;
      ++i;
      ++j;
    }
  }
  return static_cast<int>(i < a.size()) - static_cast<int>(j < b.size());
}

} // namespace

const member* view::find(node_id id) const noexcept {
  auto at = std::lower_bound(members.begin(), members.end(), id,
                             [](const member& m, node_id wanted) { return m.id < wanted; });
  return at != members.end() && at->id == id ? &*at : nullptr;
}

const member* view::find(node_id id, const incarnation& inc) const noexcept {
  const auto* known = find(id);
  return known != nullptr && known->inc == inc ? known : nullptr;
}

const member* view::find(const incarnation& inc) const noexcept {
  auto at = std::find_if(members.begin(), members.end(),
                         [&inc](const member& m) { return m.inc == inc; });
  return at != members.end() ? &*at : nullptr;
}

const member* view::find_name(std::string_view name) const noexcept {
  const auto* found = find(node_id_of(name));
  return found != nullptr && found->name == name ? found : nullptr;
}

const departed* view::find_gone(std::string_view name) const noexcept {
  const auto at = std::find_if(gone.begin(), gone.end(),
                               [name](const departed& each) { return each.name == name; });
  return at != gone.end() ? &*at : nullptr;
}

const member* view::leader() const noexcept {
  return masters.empty() ? nullptr : find_name(masters.front());
}

bool view::is_master(std::string_view name) const noexcept {
  return std::find(masters.begin(), masters.end(), name) != masters.end();
}

std::size_t view::masters_lost() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(former_masters.begin(), former_masters.end(),
                    [this](const member& m) { return find(m.id) == nullptr; }));
}

bool view::newer_than(const view& other) const noexcept {
  return stamp() > other.stamp();
}

std::string_view to_string(departure why) noexcept {
  switch (why) {
  case departure::silent:
    return "silent";
  case departure::connection_broke:
    return "connection broke";
  case departure::replaced:
    return "replaced";
  }
  return "?";
}

bool natural_less(const std::string& a, const std::string& b) noexcept {
  int order = natural_compare(a, b);
  // "node1" and "node01" have the same number but are not the same host, so the plain text order
  // decides between them.
  return order != 0 ? order < 0 : a < b;
}

} // namespace peercache::discovery
