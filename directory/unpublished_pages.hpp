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

/// Pages that directory owners have still to be told of, because an owner has not acknowledged them
/// or a new view gave them other owners. Each owner has a queue, so that an owner that does not
/// answer holds up no other owner; one more queue (`all_owners`) has the pages of which all of
/// their owners have to be told. One chunk of each queue is on its way at a time.
///
/// Threads: none; the owner serializes.
class unpublished_pages {
public:
  /// Names the queue of pages that all of their owners have to be told of.
  static constexpr node_id all_owners{};
  static constexpr std::size_t chunk_pages = 2048;

  struct page {
    page_key key;
    node_id only = all_owners; ///< The only owner to tell.
    generation gen{};          ///< Generation of the page when it was last sent to an owner.
    /// Whether the owner was told of the page already, as one of several, and missed it. Such a
    /// page comes before the others of its queue, and `count_max` of `take` does not count it.
    bool missed = false;
  };

  void add(const page& next);
  /// Queues a page at the front of the queue `all_owners`.
  void add_first(const page_key& key) { queues_[all_owners].pages.push_front({key}); }
  /// Forgets the queued pages, but not which queues have a chunk on its way.
  void clear();
  /// Forgets pages queued for an owner that does not own them by this ring.
  void forget_moved(const discovery::hash_ring& ring, std::uint32_t replicas);
  bool empty() const noexcept { return size() == 0; }
  std::size_t size() const noexcept;
  /// Whether no page is queued, and no chunk is on its way.
  bool idle() const noexcept;

  /// Returns the queues that have pages and no chunk on its way.
  std::vector<node_id> ready() const;

  struct chunk {
    /// The pages of the chunk, which the indices of `batches` refer to. Empty: there is nothing to
    /// send.
    std::vector<page> pages;
    std::size_t counted = 0; ///< Pages that `count_max` counts.
    std::vector<owner_batch> batches;
  };
  /// Returns the location of a page in memory; nothing when the page is no longer in memory.
  using locate = std::function<std::optional<page_location>(const page_key&)>;
  /// Forgets, when the queue has grown much, pages that have left memory and further mentions of a
  /// page. Call before `take`, and while an owner cannot be told anything, so that the queue has an
  /// end.
  void tidy(node_id queue, const locate& where);
  /// Takes the next pages of this queue, at most `chunk_max`, and of those that their owner has not
  /// `missed` at most `count_max`. The chunk is on its way until `settle`, unless it is empty.
  /// Pages that have left memory or have another owner by this ring are forgotten. @pre no chunk of
  /// the queue is on its way
  chunk take(node_id queue, std::size_t chunk_max, std::size_t count_max,
             const discovery::hash_ring& ring, std::uint32_t replicas, const locate& where);

  struct outcome {
    /// Pages whose copies the caller drops: no other node relies on them, and no reader would find
    /// them.
    std::vector<page> useless;
    /// Whether each owner has answered for each page of the chunk; if not, the caller goes on with
    /// the queue later, not at once.
    bool all_heard = true;
  };
  /// Ends the queue's chunk on its way. @param sent the pages of the chunk @param said what the
  /// owners said of them
  outcome settle(node_id queue, const std::vector<page>& sent, const publication& said);

private:
  struct queue {
    std::deque<page> pages;
    bool on_way = false;
    std::size_t tidy_at = chunk_pages; ///< Pages with which `tidy` has something to do.
  };
  std::map<node_id, queue> queues_;
};

} // namespace peercache::directory
