#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace peercache::litmus {

/// A relation between at most 32 events: a set of pairs.
class relation {
public:
  static constexpr std::size_t events_max = 32;
  using set = std::uint32_t; ///< A set of events, a bit for each.

  void add(std::size_t from, std::size_t to) { rows_[from] |= set{1} << to; }
  bool has(std::size_t from, std::size_t to) const { return (rows_[from] >> to & 1) != 0; }

  static relation identity(set events) {
    relation same;
    for (std::size_t i = 0; i < events_max; ++i)
      same.rows_[i] = events & set{1} << i;
    return same;
  }

  relation operator|(const relation& other) const {
    relation both = *this;
    for (std::size_t i = 0; i < events_max; ++i)
      both.rows_[i] |= other.rows_[i];
    return both;
  }

  /// The pairs that a pair of this one, followed by a pair of the other one, connects.
  relation then(const relation& other) const {
    relation joined;
    for (std::size_t i = 0; i < events_max; ++i)
      for (set left = rows_[i]; left != 0; left &= left - 1)
        joined.rows_[i] |= other.rows_[static_cast<std::size_t>(std::countr_zero(left))];
    return joined;
  }

  /// The pairs whose first event is in `from` and whose second one is in `to`.
  relation between(set from, set to) const { return identity(from).then(*this).then(identity(to)); }

  relation inverse() const {
    relation turned;
    for (std::size_t i = 0; i < events_max; ++i)
      for (std::size_t j = 0; j < events_max; ++j)
        if (has(i, j))
          turned.add(j, i);
    return turned;
  }

  /// One pair or several, one behind the other.
  relation closure() const {
    relation all = *this;
    for (std::size_t middle = 0; middle < events_max; ++middle)
      for (auto& row : all.rows_)
        if ((row >> middle & 1) != 0)
          row |= all.rows_[middle];
    return all;
  }

  bool irreflexive() const {
    for (std::size_t i = 0; i < events_max; ++i)
      if (has(i, i))
        return false;
    return true;
  }
  bool acyclic() const { return closure().irreflexive(); }

private:
  std::array<set, events_max> rows_{};
};

} // namespace peercache::litmus
