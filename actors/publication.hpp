#pragma once

#include "directory/shard.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace peercache::actors {

/// What the owners said of one batch of pages.
struct publication {
  explicit publication(std::size_t pages)
      : duplicate(pages), recorded(pages), unheard(pages), open_(pages) {}
  std::vector<bool>
      duplicate;              ///< Some owner knows the page elsewhere, and did not record this one.
  std::vector<bool> recorded; ///< Some owner has recorded it.
  std::vector<bool> unheard;  ///< Some owner has not answered, whatever it did: to be tried again.
  std::size_t waiting = 0;    ///< Owners that have not answered.
  /// Called once, before `done`, when each page is recorded by some owner, or all its owners have
  /// answered; or when that is not waited for any longer. May be empty.
  std::function<void(publication&)> decided;
  std::function<void(publication&)> done; ///< Called once, after the last answer.

  /// One owner of these pages is about to be asked. @pre no owner has been asked so far
  void will_ask(const std::vector<std::uint32_t>& indices) {
    for (auto index : indices)
      undecided_ += open_[index]++ == 0 ? 1 : 0;
  }

  void answered(const std::vector<std::uint32_t>& indices, const std::string& outcomes) {
    using directory::publish_outcome;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      auto outcome = i < outcomes.size() ? static_cast<publish_outcome>(outcomes[i])
                                         : publish_outcome::unknown_owner;
      if (outcome == publish_outcome::duplicate)
        duplicate[indices[i]] = true;
      if (outcome == publish_outcome::unknown_owner || outcome == publish_outcome::behind)
        unheard[indices[i]] = true;
      close(indices[i], outcome == publish_outcome::accepted || outcome == publish_outcome::stale);
    }
    finish_one();
  }

  void failed(const std::vector<std::uint32_t>& indices) {
    for (auto index : indices) {
      unheard[index] = true;
      close(index, false);
    }
    finish_one();
  }

  void finish_one() {
    --waiting;
    if (undecided_ == 0 || waiting == 0)
      decide();
    if (waiting == 0)
      done(*this);
  }

  /// What is known by now has to do.
  void decide() {
    if (const auto once = std::exchange(decided, nullptr))
      once(*this);
  }

  /// Some owner has not answered so far, or for good.
  bool may_be_recorded(std::size_t page) const { return unheard[page] || open_[page] > 0; }
  /// Nobody relies on this copy, and nobody would find it.
  bool is_useless(std::size_t page) const {
    return duplicate[page] && !recorded[page] && !may_be_recorded(page);
  }

  /// What a producer does with a page that it has put: see `commit` (pool_publishing.hpp).
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
  /// One owner has answered, or will not.
  void close(std::uint32_t page, bool has_recorded) {
    const bool was_open = open_[page] > 0 && !recorded[page];
    if (open_[page] > 0)
      --open_[page];
    recorded[page] = recorded[page] || has_recorded;
    if (was_open && (recorded[page] || open_[page] == 0))
      --undecided_;
  }

  std::vector<std::uint8_t> open_; ///< Owners of each page that were asked and have not answered.
  std::size_t undecided_ = 0;      ///< Pages that nobody has recorded, with such owners.
};

using publication_ptr = std::shared_ptr<publication>;

} // namespace peercache::actors
