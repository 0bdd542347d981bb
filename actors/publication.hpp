#pragma once

#include "directory/shard.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace peercache::actors {

/// What the owners said of one batch of pages.
struct publication {
  explicit publication(std::size_t pages) : duplicate(pages), recorded(pages), unheard(pages) {}
  std::vector<bool>
      duplicate;              ///< Some owner knows the page elsewhere, and did not record this one.
  std::vector<bool> recorded; ///< Some owner has recorded it.
  std::vector<bool> unheard;  ///< Some owner has not answered, whatever it did: to be tried again.
  std::size_t waiting = 0;    ///< Owners that have not answered.
  std::function<void(publication&)> done;

  void answered(const std::vector<std::uint32_t>& indices, const std::string& outcomes) {
    using directory::publish_outcome;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      auto outcome = i < outcomes.size() ? static_cast<publish_outcome>(outcomes[i])
                                         : publish_outcome::unknown_owner;
      if (outcome == publish_outcome::duplicate)
        duplicate[indices[i]] = true;
      if (outcome == publish_outcome::accepted || outcome == publish_outcome::stale)
        recorded[indices[i]] = true;
      if (outcome == publish_outcome::unknown_owner || outcome == publish_outcome::behind)
        unheard[indices[i]] = true;
    }
    finish_one();
  }

  void failed(const std::vector<std::uint32_t>& indices) {
    for (auto index : indices)
      unheard[index] = true;
    finish_one();
  }

  void finish_one() {
    if (--waiting == 0)
      done(*this);
  }

  /// What a producer does with a page that it has put: see `commit` (pool_publishing.hpp).
  enum class sequel : std::uint8_t {
    none,
    tell_all, ///< Some owner has no record of it: once more, to all of them.
    again,    ///< The same once more.
    drop,     ///< Nobody relies on this copy, and nobody would find it.
  };
  sequel after_put(std::size_t page) const {
    if (is_useless(page))
      return sequel::drop;
    return duplicate[page] || unheard[page] ? sequel::tell_all : sequel::none;
  }
  /// The same after it was published again, to all owners or to one of them.
  sequel after_repeat(std::size_t page, bool to_all) const {
    if (unheard[page])
      return sequel::again;
    if (!is_useless(page))
      return sequel::none;
    return to_all ? sequel::drop : sequel::tell_all;
  }

private:
  bool is_useless(std::size_t page) const {
    return duplicate[page] && !recorded[page] && !unheard[page];
  }
};

} // namespace peercache::actors
