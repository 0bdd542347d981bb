#pragma once

#include "common/page_key.hpp"
#include "link/protocol/disk_wire.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace peercache::scenario {

/// The pages on a machine's disk, which outlive the processes there. In place of bytes a page has
/// the number of the put that wrote them. Threads: one.
class disk {
public:
  struct page {
    page_key key;
    std::uint64_t put = 0;
    std::uint32_t length_bytes = 0;
    std::uint64_t checksum = 0;
  };

  /// Returns the page of this key; null when it is not on the disk.
  const page* find(const page_key& key) const {
    const auto found = pages_.find(key.prefix());
    return found != pages_.end() ? &found->second : nullptr;
  }
  void write(const page& what) {
    erase(what.key);
    pages_[what.key.prefix()] = what;
    order_.push_back(what.key);
  }
  bool erase(const page_key& key) {
    std::erase(order_, key);
    return pages_.erase(key.prefix()) > 0;
  }
  /// Removes the page that was written first; returns its key. @pre the disk is not empty
  page_key give_up() {
    const auto oldest = order_.front();
    erase(oldest);
    return oldest;
  }
  void clear() {
    pages_.clear();
    order_.clear();
  }
  std::size_t size() const noexcept { return pages_.size(); }
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    for (const auto& [place, each] : pages_)
      visit(each);
  }

  /// Returns up to `count` pages (stored_page) behind the place `after`, and the place of the last
  /// returned page, or 0 when no further pages follow.
  std::pair<std::string, std::uint64_t> show(std::uint64_t after, std::uint32_t count) const {
    std::string pages;
    auto at = pages_.upper_bound(after);
    for (; at != pages_.end() && count > 0; ++at, --count) {
      link::append_record(pages, packed(at->second));
      after = at->first;
    }
    return {std::move(pages), at != pages_.end() ? after : 0};
  }

  static link::stored_page packed(const page& what) {
    return {what.key, what.checksum, what.length_bytes, 0};
  }

private:
  std::map<std::uint64_t, page> pages_; ///< Pages by place: the first bytes of their keys.
  std::deque<page_key> order_; ///< Keys of the pages, the page that was written first in front.
};

} // namespace peercache::scenario
