#pragma once

#include "common/assert.hpp"
#include "directory/shard.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::directory {

/// What the owners said of one batch of pages. Its user asks the owners, tells here what each of
/// them answered, and looks after each answer whether that decides something.
///
/// Threads: none; the owner serializes.
class publication {
public:
  explicit publication(std::size_t pages)
      : duplicate(pages), recorded(pages), unheard(pages), open_(pages) {}

  /// Some owner knows the page elsewhere, and did not record this one.
  std::vector<bool> duplicate;
  /// Some owner has recorded the page.
  std::vector<bool> recorded;
  /// Some owner has not answered, whatever it did: to be tried again.
  std::vector<bool> unheard;

  /// One owner of these pages is about to be asked. @pre no owner has answered so far
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

  /// Each page is recorded by some owner, or all its owners have answered.
  bool is_decided() const noexcept { return undecided_ == 0; }
  /// All owners have answered, or will not.
  bool is_done() const noexcept { return waiting_ == 0; }

  /// Some owner has not answered so far, or for good.
  bool may_be_recorded(std::size_t page) const { return unheard[page] || open_[page] > 0; }
  /// Nobody relies on this copy, and nobody would find it.
  bool is_useless(std::size_t page) const {
    return duplicate[page] && !recorded[page] && !may_be_recorded(page);
  }

  /// What a producer does with a page that it has put: see `publisher::put`.
  enum class sequel : std::uint8_t {
    none,
    tell_all, ///< Some owner has no record of it: once more, to all of them.
    again,    ///< The same once more.
    drop,     ///< It is useless.
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
  void finish_one() {
    PEERCACHE_ASSERT(waiting_ > 0); // An answer that nobody was asked for, or one taken twice.
    --waiting_;
  }

  /// One owner has answered, or will not.
  void close(std::uint32_t page, bool has_recorded) {
    PEERCACHE_ASSERT(open_[page] > 0);
    const bool was_open = !recorded[page];
    --open_[page];
    recorded[page] = recorded[page] || has_recorded;
    if (was_open && (recorded[page] || open_[page] == 0))
      --undecided_;
  }

  std::vector<std::uint8_t> open_; ///< Owners of each page that were asked and have not answered.
  std::size_t undecided_ = 0;      ///< Pages that nobody has recorded, with such owners.
  std::size_t waiting_ = 0;        ///< Owners that have not answered.
};

} // namespace peercache::directory
