#pragma once

#include "common/ids.hpp"
#include "common/page_key.hpp"
#include "directory/owner_batches.hpp"
#include "directory/page_location.hpp"
#include "directory/publication.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace peercache::directory {

/// Pages that directory owners are to be told of (again): those that some owner has not
/// acknowledged, those that changed owner. A queue for each owner, so that one that does not answer
/// holds up no other, and one of pages that all of their owners are to hear of. Of each queue one
/// chunk is on its way at a time.
///
/// Threads: none; the owner serializes.
class unpublished_pages {
public:
  /// Names the queue of pages that all of their owners are to be told of.
  static constexpr node_id all_owners{};
  static constexpr std::size_t chunk_pages = 2048;

  struct page {
    page_key key;
    node_id only = all_owners; ///< The others know it.
    generation gen{};          ///< It had when it was sent last.
  };

  void add(const page& next) { queues_[next.only].pages.push_back(next); }
  /// Before all others that go to all owners.
  void add_first(const page_key& key) { queues_[all_owners].pages.push_front({key}); }
  /// Forgets all but that some are on their way.
  void clear();
  /// Forgets what owners were to be told of that own it no more by this ring.
  void forget_moved(const discovery::hash_ring& ring, std::uint32_t replicas);
  bool empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept;
  /// Empty, and nothing is on its way.
  bool idle() const noexcept;

  /// Queues with pages none of which are on their way.
  std::vector<node_id> ready() const;

  struct chunk {
    std::vector<page> pages; ///< By their indices in the batches. Empty: nothing is to be sent.
    std::vector<owner_batch> batches;
  };
  /// Where the page is; nothing when it is not in memory any more.
  using locate = std::function<std::optional<page_location>(const page_key&)>;
  /// The next of this queue, at most `count_max`; on their way until `settle`, unless there are
  /// none. What has left memory or has another owner by this ring is forgotten.
  /// @pre nothing of the queue is on its way
  chunk take(node_id queue, std::size_t count_max, const discovery::hash_ring& ring,
             std::uint32_t replicas, const locate& where);

  struct outcome {
    std::vector<page> useless; ///< Nobody relies on them and nobody finds them: to be dropped.
    bool all_heard = true;     ///< Otherwise to be tried later, not at once.
  };
  /// What the owners said of a chunk of this queue, whose pages these are.
  outcome settle(node_id queue, const std::vector<page>& sent, const publication& said);

private:
  struct queue {
    std::deque<page> pages;
    bool on_way = false;
  };
  std::map<node_id, queue> queues_;
};

} // namespace peercache::directory
