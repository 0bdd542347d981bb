#pragma once

#include "common/assert.hpp"
#include "directory/shard.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace peercache::directory {

/// Collects what the directory owners answer about one published batch of pages. Its user asks the
/// owners, passes each answer on, and checks after each answer whether the batch is decided.
///
/// Threads: none; the pool actor serializes all calls.
class publication {
public:
  explicit publication(std::size_t pages)
      : duplicate(pages), recorded(pages), unheard(pages), open_(pages) {}

  /// For each page: whether some owner knows the page at other holders, and did not record this
  /// copy.
  std::vector<bool> duplicate;
  /// For each page: whether some owner has recorded this copy.
  std::vector<bool> recorded;
  /// For each page: whether some owner has not answered, and so may have recorded the page or not;
  /// such a page has to be published again.
  std::vector<bool> unheard;

  /// Call before one owner is asked about these pages. @pre no owner has answered so far
  void will_ask(const std::vector<std::uint32_t>& indices) {
    for (auto index : indices)
      undecided_ += open_[index]++ == 0 ? 1 : 0;
    ++waiting_;
  }

  /// Notes an owner's answer about these pages. Returns those that the owner may not have recorded,
  /// and so has to be told again.
  std::vector<std::uint32_t> answered(const std::vector<std::uint32_t>& indices,
                                      const std::string& outcomes) {
    using directory::publish_outcome;
    finish_one();
    std::vector<std::uint32_t> missed;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      auto outcome = i < outcomes.size() ? static_cast<publish_outcome>(outcomes[i])
                                         : publish_outcome::unknown_holder;
      if (outcome == publish_outcome::duplicate)
        duplicate[indices[i]] = true;
      if (outcome == publish_outcome::unknown_holder || outcome == publish_outcome::behind) {
        unheard[indices[i]] = true;
        missed.push_back(indices[i]);
      }
      close(indices[i], outcome == publish_outcome::accepted || outcome == publish_outcome::stale);
    }
    PEERCACHE_ASSERT(!is_done() || is_decided());
    return missed;
  }

  /// Notes that an owner has not answered about these pages.
  void failed(const std::vector<std::uint32_t>& indices) {
    finish_one();
    for (auto index : indices) {
      unheard[index] = true;
      close(index, false);
    }
    PEERCACHE_ASSERT(!is_done() || is_decided());
  }

  /// Calls `answered`, or `failed` where `outcomes` is null. Returns the pages that the owner has
  /// to be told again.
  std::vector<std::uint32_t> note(const std::vector<std::uint32_t>& indices,
                                  const std::string* outcomes) {
    if (outcomes != nullptr)
      return answered(indices, *outcomes);
    failed(indices);
    return indices;
  }

  /// Whether each page is recorded by some owner, or all of its owners have answered.
  bool is_decided() const noexcept { return undecided_ == 0; }
  /// Whether all owners that were asked have answered or failed to.
  bool is_done() const noexcept { return waiting_ == 0; }

  /// Whether some owner of the page has not answered yet, or never will.
  bool may_be_recorded(std::size_t page) const { return unheard[page] || open_[page] > 0; }
  /// Whether the producer can drop its copy of the page: no other node relies on the copy, and no
  /// reader would find it.
  bool is_useless(std::size_t page) const {
    return duplicate[page] && !recorded[page] && !may_be_recorded(page);
  }

  /// A producer's next step with a page after the owners' answers; the rules stand at
  /// `publisher::put`.
  enum class sequel : std::uint8_t {
    none,
    tell_all, ///< Some owner knows the page elsewhere: tell all owners again.
    again,    ///< Send the same message again.
    drop,     ///< Drop this copy: no reader would find it.
  };
  sequel after_put(std::size_t page) const {
    if (is_useless(page))
      return sequel::drop;
    return duplicate[page] ? sequel::tell_all : sequel::none;
  }
  /// Returns what the producer does after it published the page again, to all owners (`to_all`) or
  /// to one. Of several owners, those that missed the page are told again by themselves.
  sequel after_repeat(std::size_t page, bool to_all) const {
    if (unheard[page])
      return to_all ? sequel::none : sequel::again;
    if (!is_useless(page))
      return sequel::none;
    return to_all ? sequel::drop : sequel::tell_all;
  }

private:
  void finish_one() {
    // The assertion fails for an answer that no owner was asked for, or that came twice.
    PEERCACHE_ASSERT(waiting_ > 0);
    --waiting_;
  }

  /// Notes for one page that an owner has answered or failed. `has_recorded`: the owner has
  /// recorded this copy.
  void close(std::uint32_t page, bool has_recorded) {
    PEERCACHE_ASSERT(open_[page] > 0);
    const bool was_open = !recorded[page];
    --open_[page];
    recorded[page] = recorded[page] || has_recorded;
    if (was_open && (recorded[page] || open_[page] == 0))
      --undecided_;
  }

  /// For each page: number of asked owners that have not answered.
  std::vector<std::uint8_t> open_;
  /// Number of pages that no owner has recorded and of which some owner has not answered.
  std::size_t undecided_ = 0;
  std::size_t waiting_ = 0; ///< Number of asked owners that have not answered.
};

} // namespace peercache::directory
