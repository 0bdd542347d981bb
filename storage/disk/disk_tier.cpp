#include "storage/disk/disk_tier.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

/// Whether two descriptions of a key's page are of the same bytes.
template <class A, class B>
bool same_page(const A& a, const B& b) noexcept {
  return a.checksum == b.checksum && a.length_bytes == b.length_bytes;
}

} // namespace

std::string_view to_string(write_skip why) noexcept {
  switch (why) {
  case write_skip::none:
    return "none";
  case write_skip::queue_full:
    return "queue_full";
  case write_skip::breaker_open:
    return "breaker_open";
  case write_skip::paused:
    return "read_only"; // The word stays as it was: dashboards know the metric by it.
  case write_skip::on_disk:
    return "on_disk";
  case write_skip::closed:
    return "closed";
  case write_skip::evicted:
    return "evicted";
  case write_skip::other_on_way:
    return "other_on_way";
  case write_skip::no_room:
    return "no_room";
  }
  return "unknown";
}

disk_tier::disk_tier(std::unique_ptr<disk_store> store, const disk_tier_options& options)
    : store_(std::move(store)), options_(options), write_breaker_(options.breaker),
      read_breaker_(options.breaker) {
  PEERCACHE_ASSERT(store_ != nullptr);
}

disk_tier::~disk_tier() {
  PEERCACHE_ASSERT(closed_ || (writes_.empty() && reads_.empty() && !scrubbing_));
}

result<recovery_report> disk_tier::recover(const recovery_options& how,
                                           const std::function<void(const disk_page&)>& found) {
  return store_->recover(how, found);
}

/// Why a page is skipped that `write` is asked for; `none`: it is written.
write_skip disk_tier::skip_of(const disk_write& page, disk_clock::time_point now) {
  if (closed_)
    return write_skip::closed;
  // A write on its way decides alone, because it replaces the page that the store has.
  if (const auto found = writes_.find(page.key); found != writes_.end())
    return same_page(found->second, page) && !found->second.forgotten ? write_skip::on_disk
                                                                      : write_skip::other_on_way;
  if (const auto* there = store_->find(page.key); there != nullptr && same_page(*there, page))
    return write_skip::on_disk;
  if (now < full_until_)
    return write_skip::paused;
  // A page that is larger than the queue is written alone.
  if (not_done_bytes_ != 0 && not_done_bytes_ + in_blocks(page.length_bytes) > options_.queue_bytes)
    return write_skip::queue_full;
  // The breaker is asked last: a half-open breaker lets one write through as a probe, and a refusal
  // for another reason would waste the probe.
  return write_breaker_.allow(now) ? write_skip::none : write_skip::breaker_open;
}

write_skip disk_tier::write(const disk_write& page, disk_clock::time_point now) {
  const auto why = skip_of(page, now);
  if (why != write_skip::none) {
    ++stats_.skipped[static_cast<std::size_t>(why)];
    return why;
  }
  const auto bytes = in_blocks(page.length_bytes);
  queue_.push_back(page);
  writes_.insert(
      {page.key, {.bytes = bytes, .checksum = page.checksum, .length_bytes = page.length_bytes}});
  not_done_bytes_ += bytes;
  return why;
}

void disk_tier::start_writes() {
  while (!queue_.empty()) {
    const auto& page = queue_.front();
    auto& its = writes_.at(page.key);
    if (its.forgotten) {
      early_.push_back({disk_event::kind::written, disk_status::refused, page.tag, page.key});
    } else {
      if (on_device_bytes_ != 0 && on_device_bytes_ + its.bytes > options_.writing_bytes)
        return;
      if (!store_->write(page))
        return;
      PEERCACHE_ASSERT(!its.started); // Each write begins once.
      its.started = true;
      on_device_bytes_ += its.bytes;
    }
    queue_.pop_front();
  }
}

void disk_tier::settle_write(const disk_event& event, disk_tier_events& events) {
  const auto found = writes_.find(event.key);
  PEERCACHE_ASSERT(found != writes_.end());
  const auto its = found->second;
  writes_.erase(found);
  PEERCACHE_ASSERT(not_done_bytes_ >= its.bytes);
  not_done_bytes_ -= its.bytes;
  auto answer = event;
  if (its.started) {
    PEERCACHE_ASSERT(on_device_bytes_ >= its.bytes);
    on_device_bytes_ -= its.bytes;
  }
  if (event.status == disk_status::ok) {
    ++stats_.writes;
    stats_.written_bytes += its.bytes;
    if (its.forgotten) {
      store_->erase(event.key);
      answer.status = disk_status::refused;
    }
  } else if (event.status == disk_status::no_room) {
    ++stats_.skipped[static_cast<std::size_t>(write_skip::no_room)];
  } else if (event.status != disk_status::refused) {
    ++stats_.write_errors;
  }
  events.done.push_back(answer);
}

/// Tells the breaker how a write or a read has ended, and begins or ends the pause of writes on a
/// full device.
void disk_tier::judge(const disk_event& event) noexcept {
  const bool wrote = event.what == disk_event::kind::written;
  auto& breaker = wrote ? write_breaker_ : read_breaker_;
  if (event.status == disk_status::ok)
    breaker.on_success();
  else if (event.status == disk_status::io_failed)
    breaker.on_failure(now_);
  if (wrote && event.status == disk_status::no_space) {
    ++stats_.no_space_errors;
    full_until_ = now_ + options_.full_pause;
  } else if (wrote && event.status == disk_status::ok) {
    full_until_ = {};
  }
}

bool disk_tier::erase(const page_key& key) {
  bool was_there = store_->erase(key);
  if (const auto found = writes_.find(key); found != writes_.end())
    was_there = found->second.forgotten = true;
  return was_there;
}

void disk_tier::read(const disk_read& page, disk_clock::time_point now) {
  PEERCACHE_ASSERT(page.tag != scrub_tag);
  if (closed_)
    early_.push_back({disk_event::kind::read, disk_status::refused, page.tag, page.key});
  else if (!read_breaker_.allow(now))
    early_.push_back({disk_event::kind::read, disk_status::io_failed, page.tag, page.key});
  else
    reads_.push_back(page);
}

void disk_tier::start_reads() {
  while (!reads_.empty()) {
    const auto& page = reads_.front();
    const auto* there = store_->find(page.key);
    const bool other = there != nullptr && page.length_bytes != 0 && !same_page(*there, page);
    if (there == nullptr || other || too_old(*there))
      early_.push_back({disk_event::kind::read, disk_status::not_found, page.tag, page.key});
    else if (!store_->read(page))
      return;
    reads_.pop_front();
  }
}

void disk_tier::settle_read(const disk_event& event, disk_tier_events& events) {
  if (event.status == disk_status::ok) {
    ++stats_.reads;
    if (const auto* page = store_->find(event.key))
      stats_.read_bytes += page->length_bytes;
  } else if (event.status == disk_status::corrupt) {
    ++stats_.checksum_failures;
    disk_page page;
    page.key = event.key;
    // The page is lost, unless the key has a newer record: that record stays.
    if (store_->find(event.key) == nullptr)
      lost(page, events);
  } else if (event.status == disk_status::io_failed) {
    ++stats_.read_errors;
  }
  if (event.tag == scrub_tag)
    settle_scrub(event.status);
  else
    events.done.push_back(event);
}

bool disk_tier::too_old(const disk_page& page) const noexcept {
  const auto ttl_s = static_cast<std::uint64_t>(options_.ttl.count());
  return ttl_s != 0 && unix_s_ > page.written_s && unix_s_ - page.written_s > ttl_s;
}

void disk_tier::lost(const disk_page& page, disk_tier_events& events) {
  if (events.gone.empty() || events.gone.back().ticket != 0)
    events.gone.emplace_back();
  events.gone.back().pages.push_back(page);
}

void disk_tier::evict(disk_tier_events& events) {
  const auto share = [this](double of) {
    return static_cast<std::uint64_t>(of * static_cast<double>(options_.size_bytes));
  };
  // The room of earlier evictions becomes free only some time after the directory has acknowledged
  // them, so bytes that are leaving do not count as used here.
  const auto store = store_->stats();
  PEERCACHE_ASSERT(store.used_bytes >= store.leaving_bytes); // An underflow would evict all pages.
  const auto used = store.used_bytes - store.leaving_bytes + not_done_bytes_;
  const auto keep = options_.size_bytes - std::min(wanted_free_bytes_, options_.size_bytes);
  const bool full = used > share(options_.high_watermark);
  if (tickets_.empty() && (full || used > keep)) {
    auto chosen = store_->begin_eviction(used - std::min(share(options_.low_watermark), keep));
    if (chosen.ticket != 0) {
      stats_.evicted += chosen.pages.size();
      wanted_pages_ -= std::min<std::uint64_t>(wanted_pages_, chosen.pages.size());
      tickets_.push_back({chosen.ticket, now_ + options_.acknowledge_at_most});
      events.gone.push_back(std::move(chosen));
    }
  }
  // Pages also leave the store without an eviction, and an eviction can take no more pages than the
  // store has.
  wanted_pages_ = std::min(wanted_pages_, store.pages);
  if (used <= keep || wanted_pages_ == 0)
    wanted_free_bytes_ = 0;
}

void disk_tier::acknowledge(std::uint64_t ticket) {
  const auto found = std::find_if(tickets_.begin(), tickets_.end(),
                                  [&](const auto& each) { return each.ticket == ticket; });
  if (found == tickets_.end())
    return; // `expire_tickets` has finished this eviction already.
  tickets_.erase(found);
  store_->finish_eviction(ticket);
}

void disk_tier::expire_tickets() {
  while (!tickets_.empty() && tickets_.front().at_most <= now_)
    acknowledge(tickets_.front().ticket);
}

void disk_tier::settle(const disk_event& event, disk_tier_events& events) {
  if (event.what == disk_event::kind::written)
    settle_write(event, events);
  else
    settle_read(event, events);
}

void disk_tier::on_completions(disk_io& io, std::span<const disk_completion> done) {
  if (done.empty())
    return;
  store_->refill();
  // A reap with no room for completions takes none, but starts the requests that the store has
  // queued.
  io.reap({});
  for (const auto& each : done)
    store_->on_completion(each);
}

void disk_tier::poll(disk_clock::time_point now, std::uint64_t unix_s, disk_tier_events& events) {
  now_ = now;
  unix_s_ = unix_s;
  expire_tickets();
  evict(events);
  start_reads();
  scrub(events);
  start_writes();
  store_->poll(now, unix_s, from_store_);
  for (const auto& event : std::exchange(from_store_, {})) {
    judge(event);
    settle(event, events);
  }
  for (const auto& event : std::exchange(early_, {}))
    settle(event, events);
}

disk_clock::time_point disk_tier::next_due() const {
  auto first = store_->next_due();
  if (!tickets_.empty())
    first = std::min(first, tickets_.front().at_most);
  if (!early_.empty())
    first = std::min(first, now_);
  if ((options_.scrub_bytes_per_s != 0 || options_.ttl.count() != 0) && !scrubbing_)
    first = std::min(first, scrub_next_);
  return first;
}

void disk_tier::close(std::chrono::nanoseconds at_most, disk_tier_events& events) {
  closed_ = true;
  for (const auto& page : std::exchange(queue_, {}))
    early_.push_back({disk_event::kind::written, disk_status::refused, page.tag, page.key});
  for (const auto& page : std::exchange(reads_, {}))
    early_.push_back({disk_event::kind::read, disk_status::refused, page.tag, page.key});
  store_->close(at_most, from_store_);
  for (const auto& event : std::exchange(from_store_, {}))
    settle(event, events);
  for (const auto& event : std::exchange(early_, {}))
    settle(event, events);
  // All writes and the scrub's read have ended.
  PEERCACHE_ASSERT(writes_.empty() && !scrubbing_ && not_done_bytes_ == 0);
}

disk_tier_stats disk_tier::stats() const {
  auto now = stats_;
  now.store = store_->stats();
  now.queue_bytes = not_done_bytes_;
  now.queue_pages = writes_.size();
  now.breaker = write_breaker_.current();
  if (now.breaker == circuit_breaker::state::closed)
    now.breaker = read_breaker_.current();
  now.breaker_opened = write_breaker_.opened_total() + read_breaker_.opened_total();
  now.full = full_until_ != disk_clock::time_point{};
  return now;
}

} // namespace peercache::storage
