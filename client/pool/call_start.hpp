#pragma once

#include "client/pool/own_pool.hpp"
#include "common/ids.hpp"
#include "common/key_epoch.hpp"
#include "storage/epoch_table.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace peercache::client {

/// The state that a call, or a piece of a large one, begins with.
struct call_start {
  /// This host's pool; null while there is no node, or the node has left its cluster.
  own_pool_ptr own;
  /// Epochs of this host's pool, or of its last pool while there is none. Clears that happened
  /// since are known to the nodes that pages are read from.
  storage::epoch_table epochs;
  std::shared_ptr<const void> memory; ///< Keeps the memory of the epochs alive.
  /// This host's node if it has left its cluster: it hears of no clear, so none of its pages is
  /// read. Null otherwise.
  incarnation left;
};

inline const page_key& key_in(const page_key& key) noexcept {
  return key;
}
inline page_key& key_in(page_key& key) noexcept {
  return key;
}
template <class Page>
auto& key_in(Page& page) noexcept {
  return page.key;
}

/// The pages of a call, with the current epochs in their keys. As long as nothing was ever cleared,
/// this costs one look at a counter and copies no key. Threads: one.
template <class Page>
class dated_pages {
public:
  dated_pages(const storage::epoch_table& epochs, std::span<const Page> pages) : pages_(pages) {
    if (!epochs.untouched())
      date(epochs);
  }
  dated_pages(const dated_pages&) = delete;
  dated_pages& operator=(const dated_pages&) = delete;

  std::span<const Page> pages() const noexcept { return pages_; }
  /// Whether the epochs are known. False: the node died while it wrote an epoch, and its successor
  /// has not repaired that yet.
  bool known() const noexcept { return known_; }

private:
  void date(const storage::epoch_table& epochs) {
    space_id space;
    epoch_number epoch = 0; // Epoch of the space that `space` names.
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      const auto& key = key_in(pages_[i]);
      if (const auto of_page = space_of(key); of_page != space) {
        space = of_page;
        epoch = epochs.epoch_of(space);
        known_ = known_ && epoch != storage::epoch_table::no_epoch;
      }
      if (epoch_of(key) == epoch)
        continue;
      if (copies_.empty())
        copies_.assign(pages_.begin(), pages_.end());
      set_epoch(key_in(copies_[i]), epoch);
    }
    if (!copies_.empty())
      pages_ = copies_;
  }

  std::span<const Page> pages_;
  /// The pages with current epochs; empty when all keys have the right epoch already.
  std::vector<Page> copies_;
  bool known_ = true;
};

} // namespace peercache::client
