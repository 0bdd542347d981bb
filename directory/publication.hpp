#pragma once

#include "common/assert.hpp"
#include "directory/shard.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::directory {

/// Collects what the owners say of one batch of pages. Its user asks the owners, passes each answer
/// on, and checks after each whether the batch is decided.
///
/// Threads: none; the owner serializes.
class publication {
public:
  explicit publication(std::size_t pages)
      : duplicate(pages), recorded(pages), unheard(pages), open_(pages) {}

  /// For each page: some owner knows it elsewhere, and did not record this copy.
  std::vector<bool> duplicate;
  /// For each page: some owner has recorded it.
  std::vector<bool> recorded;
  /// For each page: some owner has not answered, and may have recorded it or not; the page is to be
  /// published again.
  std::vector<bool> unheard;

  /// Call before one owner is asked about these pages. @pre no owner has answered so far
  void will_ask(const std::vector<std::uint32_t>& indices) {
    for (auto index : indices)
      undecided_ += open_[index]++ == 0 ? 1 : 0;
    ++waiting_;
  }

  void answered(const std::vector<std::uint32_t>& indices, const std::string& outcomes) {
    using directory::publish_outcome;
    finish_one();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      auto outcome = i < outcomes.size() ? static_cast<publish_outcome>(outcomes[i])
                                         : publish_outcome::unknown_holder;
      if (outcome == publish_outcome::duplicate)
        duplicate[indices[i]] = true;
      if (outcome == publish_outcome::unknown_holder || outcome == publish_outcome::behind)
        unheard[indices[i]] = true;
      close(indices[i], outcome == publish_outcome::accepted || outcome == publish_outcome::stale);
    }
  }

  void failed(const std::vector<std::uint32_t>& indices) {
    finish_one();
    for (auto index : indices) {
      unheard[index] = true;
      close(index, false);
    }
  }

  /// Each page is recorded by some owner, or all of its owners have answered.
  bool is_decided() const noexcept { return undecided_ == 0; }
  /// All owners have answered, or have failed to.
  bool is_done() const noexcept { return waiting_ == 0; }

  /// Some owner of the page has not answered yet, or never will.
  bool may_be_recorded(std::size_t page) const { return unheard[page] || open_[page] > 0; }
  /// Nobody relies on this copy of the page, and nobody would find it.
  bool is_useless(std::size_t page) const {
    return duplicate[page] && !recorded[page] && !may_be_recorded(page);
  }

  /// What a producer does with a page after the owners' answers; the rules stand at
  /// `publisher::put`.
  enum class sequel : std::uint8_t {
    none,
    tell_all, ///< Some owner has no record of the page: tell all owners again.
    again,    ///< Repeat the same message.
    drop,     ///< The copy is useless.
  };
  sequel after_put(std::size_t page) const {
    if (is_useless(page))
      return sequel::drop;
    return duplicate[page] || unheard[page] ? sequel::tell_all : sequel::none;
  }
  /// What follows when the page was published again, to all owners or to one of them.
  sequel after_repeat(std::size_t page, bool to_all) const {
    if (unheard[page])
      return sequel::again;
    if (!is_useless(page))
      return sequel::none;
    return to_all ? sequel::drop : sequel::tell_all;
  }

private:
  void finish_one() {
    PEERCACHE_ASSERT(waiting_ > 0); // An answer that nobody was asked for, or one taken twice.
    --waiting_;
  }

  /// Notes one owner's answer, or its failure, for one page.
  void close(std::uint32_t page, bool has_recorded) {
    PEERCACHE_ASSERT(open_[page] > 0);
    const bool was_open = !recorded[page];
    --open_[page];
    recorded[page] = recorded[page] || has_recorded;
    if (was_open && (recorded[page] || open_[page] == 0))
      --undecided_;
  }

  std::vector<std::uint8_t> open_; ///< For each page: owners that were asked and have not answered.
  /// Pages that no owner has recorded and of which some owner has not answered.
  std::size_t undecided_ = 0;
  std::size_t waiting_ = 0; ///< Owners that have not answered.
};

} // namespace peercache::directory
