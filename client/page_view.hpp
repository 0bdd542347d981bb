#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace peercache::client {

struct viewed_page; // client/pool/viewed_page.hpp

/// A page of this host's pool where it lies, so that no byte is copied. `cache_client::look_at`
/// makes it.
///
/// The node may give the page's memory to another page at any time: a clear or a removal does so at
/// once, an eviction not before the view's hold ends. Whoever reads `bytes` asks `intact` after the
/// last read, and throws away what was made of them when it says no, as readers of a seqlock do.
///
/// Threads: one view per thread, or locked from outside; reads of `bytes` may be in any thread, and
/// `intact` speaks for those of the thread that asks. Ownership: the pool stays mapped while a view
/// of it lives, whatever becomes of client and node. The destructor ends the hold. Forks: a child
/// must not touch `bytes`, which it does not inherit; there the destructor does nothing.
class page_view {
public:
  page_view(page_view&& other) noexcept;
  page_view& operator=(page_view&& other) noexcept;
  ~page_view();

  /// The page's bytes. Never write to them: all processes of this host read them.
  std::span<const std::byte> bytes() const noexcept;
  /// Whether the page is kept from eviction. False: the share `pool.hold_share` is taken, no hold
  /// was wanted, or the page was set a moment ago and the node has not published it yet.
  bool held() const noexcept;
  /// Whether everything that this thread has read from `bytes` so far is the page's. Once false,
  /// always false.
  bool intact() const noexcept;

private:
  friend class cache_client;
  explicit page_view(std::unique_ptr<viewed_page> page) noexcept;
  void end() noexcept;

  std::unique_ptr<viewed_page> page_; ///< The page that is viewed; null after a move.
};

} // namespace peercache::client
