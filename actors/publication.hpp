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
      if (outcome == publish_outcome::unknown_owner)
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

  /// Nobody can rely on this copy: see `commit`.
  bool may_be_dropped(std::size_t page) const {
    return duplicate[page] && !recorded[page] && !unheard[page];
  }
  /// Some owner has no record of a page that stays.
  bool is_unknown_to_some(std::size_t page) const { return duplicate[page] || unheard[page]; }
};

} // namespace peercache::actors
