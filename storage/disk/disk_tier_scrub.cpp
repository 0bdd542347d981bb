// How a disk_tier reads its pages again, one after the other, to find the damaged and the old ones.

#include "common/assert.hpp"
#include "storage/disk/disk_tier.hpp"

#include <cstdlib>
#include <utility>

namespace peercache::storage {
namespace {

/// How many pages the scrub looks at for their age each time it moves on.
constexpr std::uint32_t looked_at_once = 64;
/// How long the scrub pauses after a read that failed or found no room.
constexpr auto scrub_pause = std::chrono::milliseconds(100);

} // namespace

void disk_tier::scrubbed::free_deleter::operator()(std::byte* memory) const noexcept {
  std::free(memory);
}

void disk_tier::scrub(disk_tier_events& events) {
  const bool reads = verifying_ || options_.scrub_bytes_per_s != 0;
  const bool due = verifying_ || ((reads || options_.ttl.count() != 0) && now_ >= scrub_next_);
  if (!due || scrubbing_ || closed_)
    return;
  if (!read_breaker_.would_allow(now_)) {
    scrub_next_ = now_ + scrub_pause;
    return;
  }
  const auto before = scrub_at_;
  const auto page = next_to_scrub(events);
  if (!page) {
    verifying_ = false;
    scrub_next_ = now_ + std::chrono::seconds(1);
  } else if (reads) {
    if (!start_scrub(*page)) { // The page is scrubbed later, when the store has room for a read.
      scrub_at_ = before;
      scrub_next_ = now_ + scrub_pause;
    }
  } else {
    scrub_next_ = now_ + std::chrono::milliseconds(1);
  }
}

/// Starts to read a page for the scrub. False: the store or the breaker takes no read now, or
/// memory is missing.
bool disk_tier::start_scrub(const disk_page& page) {
  // The device may still read into the memory of a page that is being scrubbed.
  PEERCACHE_ASSERT(!scrubbing_);
  scrubbed next{.memory = {}, .page = page};
  next.memory.reset(
      static_cast<std::byte*>(std::aligned_alloc(disk_block_bytes, in_blocks(page.length_bytes))));
  disk_read look{page.key, next.memory.get(), scrub_tag};
  look.counts = false;
  if (!next.memory || !read_breaker_.allow(now_) || !store_->read(look))
    return false;
  scrubbing_ = std::move(next);
  if (options_.scrub_bytes_per_s != 0)
    scrub_next_ = now_ + std::chrono::nanoseconds(page.length_bytes * 1'000'000'000ull /
                                                  options_.scrub_bytes_per_s);
  return true;
}

/// The next page of the scrub's walk that is not too old; pages that are too old are erased on the
/// way.
std::optional<disk_page> disk_tier::next_to_scrub(disk_tier_events& events) {
  std::vector<disk_page> old;
  std::optional<disk_page> chosen;
  for (std::uint32_t i = 0; i < looked_at_once && !chosen; ++i) {
    scrub_at_ = store_->walk(scrub_at_, 1, [&](const disk_page& page) {
      if (too_old(page))
        old.push_back(page);
      else
        chosen = page;
    });
    if (scrub_at_ == 0)
      break;
  }
  for (const auto& page : old) {
    store_->erase(page.key);
    lost(page, events);
  }
  stats_.expired += old.size();
  return chosen;
}

void disk_tier::settle_scrub(disk_status status) {
  PEERCACHE_ASSERT(scrubbing_);
  if (status == disk_status::ok)
    stats_.scrubbed_bytes += scrubbing_->page.length_bytes;
  scrubbing_.reset();
}

} // namespace peercache::storage
