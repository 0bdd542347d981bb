#include "actors/disk/disk_service.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/log.hpp"
#include "common/page_status.hpp"
#include "common/unix_time.hpp"
#include "storage/disk/cleared_file.hpp"
#include "storage/disk/disk_store.hpp"
#include "storage/disk/offset/offset_index.hpp"
#include "storage/disk/other_stores.hpp"

#include <algorithm>

namespace peercache::actors {
namespace {

storage::disk_store_options store_options(const config::node_config& config,
                                          const discovery::member& self) {
  storage::disk_store_options options;
  options.owner = {node_id_of(config.cluster.name).value, self.id.value};
  options.size_bytes = config.disk.size_bytes;
  options.lru = config.disk.eviction == config::disk_eviction::lru;
  options.bucket_bytes = config.disk.file_bytes();
  options.bucket_keys = config.disk.bucket_keys;
  return options;
}

storage::disk_tier_options tier_options(const config::node_config& config) {
  storage::disk_tier_options options;
  options.size_bytes = config.disk.size_bytes;
  options.high_watermark = config.disk.high_watermark;
  options.low_watermark = config.disk.low_watermark;
  options.ttl = std::chrono::duration_cast<std::chrono::seconds>(config.disk.ttl);
  options.queue_bytes = config.disk.queue_bytes;
  options.scrub_bytes_per_s = config.disk.scrub_bytes_per_s;
  return options;
}

/// Returns the bytes of pages that may wait for the disk, at most a quarter of the pool: waiting
/// pages are pinned.
std::uint64_t queue_bytes(const config::node_config& config) noexcept {
  return std::min(config.disk.queue_bytes, config.pool.size_bytes / 4);
}

} // namespace

void disk_gate::leave(std::uint64_t bytes) noexcept {
  const auto before = bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  PEERCACHE_ASSERT(before >= bytes); // Each page leaves once, with the bytes that it came with.
}

bool disk_gate::enter(std::uint64_t bytes) noexcept {
  if (!open_.load(std::memory_order_relaxed)) {
    count_skip(storage::write_skip::paused);
    return false;
  }
  const auto waiting = bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (waiting == 0 || waiting + bytes <= bytes_max_)
    return true;
  leave(bytes);
  count_skip(storage::write_skip::queue_full);
  return false;
}

// -- construction

disk_service::disk_service(const config::node_config& config, storage::pool_memory& memory)
    : config_(config.disk), slots_(memory.slots()), memory_(memory), epochs_(memory.epochs()),
      wanted_(config.disk.enabled && !config.disk.path.empty()), gate_(queue_bytes(config)) {}

std::unique_ptr<disk_service> disk_service::open(const config::node_config& config,
                                                 const discovery::member& self,
                                                 storage::pool_memory& memory,
                                                 cleared_spaces* cleared,
                                                 const device_decorator& decorate) {
  std::unique_ptr<disk_service> made(new disk_service(config, memory));
  if (!config.disk.enabled)
    made->why_off_ = "disk.enabled is false";
  else if (config.disk.path.empty())
    made->why_off_ = "disk.path is not set";
  if (!made->why_off_.empty()) {
    log::info("disk tier: off, {}; what leaves memory is gone", made->why_off_);
  } else if (auto ready = made->set_up(config, self, cleared, decorate); !ready) {
    made->why_off_ = ready.error().message;
    made->incidents_.is_off(made->why_off_, unix_ms());
    log::warn("disk tier: off, what leaves memory is gone: {}", made->why_off_);
  }
  if (!made->on())
    made->scanned_ = 1;
  made->publish_report();
  return made;
}

result<void> disk_service::set_up(const config::node_config& config, const discovery::member& self,
                                  cleared_spaces* cleared, const device_decorator& decorate) {
  path_ = config.disk.path + "/" + self.name;
  incidents_ = disk_incidents(path_);
  auto claim = storage::folder_claim::take(path_, {config.cluster.name, self.name});
  if (!claim)
    return claim.error();
  claim_ = std::move(*claim);
  const auto remembered = storage::read_cleared(path_);
  if (!remembered)
    return remembered.error();
  if (cleared != nullptr && !remembered->empty())
    if (auto known = cleared->recall(*remembered); !known)
      return known.error();
  auto disk = storage::open_disk(path_, config.disk.queue_depth);
  if (!disk)
    return disk.error();
  io_ = decorate ? decorate(std::move(disk->io)) : std::move(disk->io);
  why_fallback_ = disk->why_fallback;
  if (!why_fallback_.empty())
    log::warn("disk tier: blocking calls instead of io_uring, which is slower: {}", why_fallback_);
  if (const auto others =
          storage::files_of_other_stores(path_, config::to_string(config.disk.store));
      !others.empty()) {
    incidents_.has_other_files(others, unix_ms());
    log::warn("disk tier: {} has {}, which disk.store does not read", path_, others);
  }
  if (config.disk.store == config::disk_store_mode::bucket &&
      config.disk.file_bytes() < config.disk.bucket_bytes)
    log::info("disk tier: buckets of {} MiB, a quarter of disk.size, which is less than "
              "disk.bucket_size",
              config.disk.file_bytes() >> 20);
  auto store = make_store(config, self);
  if (!store)
    return store.error();
  tier_.emplace(std::move(*store), tier_options(config));
  log::info("disk tier: {} in {}, at most {} MiB, {}", tier_->store().name(), path_,
            config.disk.size_bytes >> 20, io_->name());
  return {};
}

result<std::unique_ptr<storage::disk_store>>
disk_service::make_store(const config::node_config& config, const discovery::member& self) {
  const auto options = store_options(config, self);
  switch (config.disk.store) {
  case config::disk_store_mode::bucket:
    return storage::make_bucket_store(*io_, options);
  case config::disk_store_mode::file_per_key:
    return storage::make_file_store(*io_, options);
  case config::disk_store_mode::offset:
    break;
  }
  auto index = storage::open_rocks_index(path_ + "/index");
  if (!index)
    return index.error();
  return storage::make_offset_store(*io_, options, std::move(*index));
}

// -- commands from other threads to the disk's thread

void disk_service::post(command what) {
  if (!on())
    return;
  {
    const std::lock_guard hold(lock_);
    commands_.push_back(std::move(what));
  }
  io_->wake();
}

void disk_service::write(std::string kept_pages) {
  post([this, batch = std::move(kept_pages)] {
    // Pages of a batch that cannot be read would stay pinned.
    PEERCACHE_ASSERT(record_count<kept_page>(batch));
    const auto count = *record_count<kept_page>(batch);
    for (std::size_t i = 0; i < count; ++i) {
      auto page = record_at<kept_page>(batch, i);
      storage::disk_write request;
      request.key = page.key;
      request.gen = {page.gen};
      request.checksum = page.checksum;
      request.length_bytes = page.length_bytes;
      request.memory = slots_.bytes(page.slot, page.length_bytes).data();
      request.tag = next_tag_++;
      if (epochs_.is_old(page.key)) {
        let_go(page);
        continue;
      }
      const auto skip = tier_->write(request, now_);
      if (skip == storage::write_skip::none) {
        keeping_.insert({request.tag, {page, now_}});
        continue;
      }
      if (skip == storage::write_skip::on_disk)
        known_.push_back(page);
      let_go(page);
    }
  });
}

void disk_service::load(std::uint64_t request, std::string wanted_pages) {
  post([this, request, batch = std::move(wanted_pages)] {
    const auto count = record_count<wanted_page>(batch).value_or(0);
    auto& open = loads_[request];
    // No two loads have the same request number.
    PEERCACHE_ASSERT(open.left == 0 && open.pages.empty());
    open.pages.resize(count);
    open.left =
        1; // The 1 is for the loop below: the load is not answered before all pages are asked for.
    disk_turn::left missing;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto page = record_at<wanted_page>(batch, i);
      const auto* there = epochs_.is_old(page.key) ? nullptr : tier_->find(page.key);
      if (there == nullptr)
        // The directory sent the reader here for a page that is not on disk: the pool is told that
        // the page is gone, so that its record is withdrawn.
        append_record(missing.keys, page.key);
      if (there == nullptr || there->length_bytes != page.length_bytes)
        continue;
      open.pages[i].checksum = there->checksum;
      const auto tag = next_tag_++;
      loading_.insert({tag, {request, i, now_}});
      ++open.left;
      tier_->read({page.key, slots_.bytes_to_fill(page.slot, page.length_bytes).data(), tag,
                   there->checksum, page.length_bytes},
                  now_);
    }
    if (!missing.keys.empty())
      turn_.gone.push_back(std::move(missing));
    finish_load(request);
  });
}

void disk_service::walk(std::uint64_t request, std::uint64_t after, std::uint32_t count) {
  post([this, request, after, count] {
    disk_turn::answer answer;
    answer.request = request;
    answer.is_walk = true;
    answer.next = tier_->store().walk(after, count, [&](const storage::disk_page& page) {
      append_record(answer.records, stored_page{page.key, page.checksum, page.length_bytes, 0});
    });
    turn_.answers.push_back(std::move(answer));
  });
}

void disk_service::remove(std::uint64_t request, std::string keys) {
  post([this, request, batch = std::move(keys)] {
    disk_turn::answer answer;
    answer.request = request;
    const auto count = record_count<page_key>(batch).value_or(0);
    for (std::size_t i = 0; i < count; ++i) {
      const bool was_there = tier_->erase(record_at<page_key>(batch, i));
      answer.records.push_back(
          static_cast<char>(was_there ? page_status::hit : page_status::not_found));
    }
    turn_.answers.push_back(std::move(answer));
  });
}

std::string disk_service::why_not_kept() const {
  return wanted_ && !on() ? "its disk tier is off (" + why_off_ + ") and may hold pages" : "";
}

void disk_service::keep_cleared(std::uint64_t request, std::string encoded) {
  post([this, request, bytes = std::move(encoded)] {
    disk_turn::answer answer;
    answer.request = request;
    if (auto kept = storage::write_cleared(path_, bytes); !kept)
      answer.records = kept.error().message;
    turn_.answers.push_back(std::move(answer));
  });
}

std::string disk_service::keep_cleared_at_end(const std::string& encoded) const {
  if (!on())
    return why_not_kept();
  PEERCACHE_ASSERT(
      stop_.load(std::memory_order_acquire)); // The disk's thread no longer writes the file.
  const auto kept = storage::write_cleared(path_, encoded);
  return kept ? "" : kept.error().message;
}

void disk_service::forget_old() {
  post([this] { forgetting_from_ = 0; });
}

void disk_service::acknowledge(std::uint64_t ticket) {
  post([this, ticket] { tier_->acknowledge(ticket); });
}

void disk_service::verify() {
  if (!on())
    return;
  verify_asked_ = true;
  post([this] {
    tier_->verify_now();
    const std::lock_guard hold(lock_);
    report_.verifying = true;
    verify_asked_ = false;
  });
}

void disk_service::make_room(std::uint64_t bytes) {
  post([this, bytes] { tier_->make_room(bytes); });
}

} // namespace peercache::actors
