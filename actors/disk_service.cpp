#include "actors/disk_service.hpp"

#include "common/checksum.hpp"
#include "common/log.hpp"
#include "common/page_status.hpp"
#include "storage/disk/offset_index.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <thread>

namespace peercache::actors {
namespace {

using namespace std::chrono_literals;
using storage::disk_clock;
using storage::disk_status;

constexpr auto sleep_max = 100ms;
constexpr auto report_every = 100ms;
/// What a stopping node waits for its disk.
constexpr auto close_at_most = 5s;
constexpr std::size_t completions_per_turn = 64;

/// The age of a page outlives the process that wrote it: the only place where the node asks what
/// time it is rather than how long something took. A clock that jumps makes pages expire early or
/// late, which is a miss.
std::uint64_t unix_seconds() noexcept {
  return static_cast<std::uint64_t>(std::time(nullptr));
}

std::string_view to_string(circuit_breaker::state state) noexcept {
  switch (state) {
  case circuit_breaker::state::closed:
    return "closed";
  case circuit_breaker::state::open:
    return "open";
  case circuit_breaker::state::half_open:
    return "half_open";
  }
  return "unknown";
}

storage::disk_store_options store_options(const config::node_config& config,
                                          const discovery::member& self) {
  storage::disk_store_options options;
  options.owner = {node_id_of(config.cluster.name).value, self.id.value};
  options.size_bytes = config.disk.size_bytes;
  options.lru = config.disk.eviction == config::disk_eviction::lru;
  options.bucket_bytes = config.disk.bucket_bytes;
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

/// Pages that wait for the disk are pinned: no more than this share of the pool ever is.
std::uint64_t queue_bytes(const config::node_config& config) noexcept {
  return std::min(config.disk.queue_bytes, config.pool.size_bytes / 4);
}

} // namespace

bool disk_gate::enter(std::uint64_t bytes) noexcept {
  if (!open_.load(std::memory_order_relaxed))
    return false;
  if (bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= bytes_max_)
    return true;
  leave(bytes);
  refused_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

// -- making one

disk_service::disk_service(const config::node_config& config, storage::pool_memory& memory)
    : config_(config.disk), slots_(memory.slots()), memory_(memory), gate_(queue_bytes(config)) {}

std::unique_ptr<disk_service> disk_service::open(const config::node_config& config,
                                                 const discovery::member& self,
                                                 storage::pool_memory& memory) {
  std::unique_ptr<disk_service> made(new disk_service(config, memory));
  if (!config.disk.enabled)
    made->why_off_ = "disk.enabled is false";
  else if (config.disk.path.empty())
    made->why_off_ = "disk.path is not set";
  if (!made->why_off_.empty()) {
    log::info("disk tier: off, {}; what leaves memory is gone", made->why_off_);
  } else if (auto ready = made->set_up(config, self); !ready) {
    made->why_off_ = ready.error().message;
    log::warn("disk tier: off, what leaves memory is gone: {}", made->why_off_);
  }
  if (!made->on())
    made->scanned_ = 1;
  made->publish_report();
  return made;
}

result<void> disk_service::set_up(const config::node_config& config,
                                  const discovery::member& self) {
  path_ = config.disk.path + "/" + self.name;
  auto claim = storage::folder_claim::take(path_, {config.cluster.name, self.name});
  if (!claim)
    return claim.error();
  claim_ = std::move(*claim);
  auto disk = storage::open_disk(path_, config.disk.queue_depth);
  if (!disk)
    return disk.error();
  io_ = std::move(disk->io);
  why_fallback_ = disk->why_fallback;
  if (!why_fallback_.empty())
    log::warn("disk tier: blocking calls instead of io_uring, which is slower: {}", why_fallback_);
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
  if (config.disk.store == config::disk_store_mode::bucket)
    return storage::make_bucket_store(*io_, options);
  if (config.disk.store == config::disk_store_mode::file_per_key)
    return storage::make_file_store(*io_, options);
  auto index = storage::open_rocks_index(path_ + "/index");
  if (!index)
    return index.error();
  return storage::make_offset_store(*io_, options, std::move(*index));
}

// -- commands

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
    const auto count = record_count<kept_page>(batch).value_or(0);
    for (std::size_t i = 0; i < count; ++i) {
      auto page = record_at<kept_page>(batch, i);
      storage::disk_write request;
      request.key = page.key;
      request.gen = {page.gen};
      request.checksum = page.checksum;
      // Nothing is on disk without a checksum, also when its writer did without.
      if (request.checksum == 0)
        request.checksum = checksum_of(slots_.bytes(page.slot, page.length_bytes));
      request.length_bytes = page.length_bytes;
      request.memory = slots_.bytes(page.slot, page.length_bytes).data();
      request.tag = next_tag_++;
      page.checksum = request.checksum;
      if (tier_->write(request, now_) == storage::write_skip::none)
        keeping_.insert({request.tag, {page, now_}});
      else
        let_go(page);
    }
  });
}

void disk_service::load(std::uint64_t request, std::string wanted_pages) {
  post([this, request, batch = std::move(wanted_pages)] {
    const auto count = record_count<wanted_page>(batch).value_or(0);
    auto& open = loads_[request];
    open.pages.resize(count);
    open.left = 1; // Ours: it is not answered before all are asked for.
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto page = record_at<wanted_page>(batch, i);
      const auto* there = tier_->find(page.key);
      if (there == nullptr || there->length_bytes != page.length_bytes)
        continue;
      open.pages[i].checksum = there->checksum;
      const auto tag = next_tag_++;
      loading_.insert({tag, {request, i, now_}});
      ++open.left;
      tier_->read({page.key, slots_.bytes(page.slot, page.length_bytes).data(), tag}, now_);
    }
    finish_load(request);
  });
}

void disk_service::finish_load(std::uint64_t request) {
  auto& open = loads_.at(request);
  if (--open.left != 0)
    return;
  disk_turn::answer answer;
  answer.request = request;
  for (const auto& page : open.pages)
    append_record(answer.records, page);
  turn_.answers.push_back(std::move(answer));
  loads_.erase(request);
}

void disk_service::walk(std::uint64_t request, std::string after, std::uint32_t count) {
  post([this, request, from = std::move(after), count] {
    disk_turn::answer answer;
    answer.request = request;
    answer.is_walk = true;
    std::optional<page_key> behind;
    if (from.size() == sizeof(page_key))
      behind = record_at<page_key>(from, 0);
    const auto last = tier_->store().walk(behind, count, [&](const storage::disk_page& page) {
      append_record(answer.records, stored_page{page.key, 0, page.checksum, page.length_bytes, 0});
    });
    if (last)
      append_record(answer.next, *last);
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

void disk_service::acknowledge(std::uint64_t ticket) {
  post([this, ticket] { tier_->acknowledge(ticket); });
}

void disk_service::verify() {
  post([this] { tier_->verify_now(); });
}

void disk_service::make_room(std::uint64_t bytes) {
  post([this, bytes] { tier_->make_room(bytes); });
}

// -- the thread

void disk_service::run(const std::function<void(disk_turn_ptr)>& tell) {
  if (!on())
    return;
  // Cheaper transfers, where the limit on locked memory allows it.
  if (auto cheaper = io_->register_memory(memory_.readable_region()); !cheaper)
    log::info("disk tier: the pool is not registered with io_uring: {}", cheaper.error().message);
  scan();
  while (!stop_.load(std::memory_order_acquire)) {
    const bool moved = turn();
    if (!turn_.empty())
      tell(std::make_shared<disk_turn>(std::exchange(turn_, {})));
    if (!moved)
      io_->wait(std::clamp<std::chrono::nanoseconds>(tier_->next_due() - disk_clock::now(), 0ns,
                                                     sleep_max));
  }
  shut_down();
}

void disk_service::stop() noexcept {
  stop_.store(true, std::memory_order_release);
  if (io_)
    io_->wake();
}

void disk_service::scan() {
  now_ = disk_clock::now();
  storage::recovery_options how;
  how.threads = std::max(1u, std::min(8u, std::thread::hardware_concurrency()));
  how.verify = config_.verify;
  auto logged_at = now_;
  how.progress = [&](std::uint64_t pages, double share) {
    scanned_.store(std::min(share, 0.999), std::memory_order_relaxed);
    if (const auto now = disk_clock::now(); now - logged_at >= 1s) {
      logged_at = now;
      log::info("disk tier: scanned {:.0f} %, {} pages", share * 100, pages);
    }
  };
  auto found = tier_->recover(how, [](const storage::disk_page&) {});
  const auto took = disk_clock::now() - now_;
  scanned_ = 1;
  if (!found) {
    log::error("disk tier: off, the scan of {} failed: {}", path_, found.error().message);
    why_off_ = found.error().message;
    publish_report();
    return;
  }
  recovered_ = *found;
  log::info("disk tier: {} pages in {} files found in {} ms; dropped: {} torn, {} foreign, "
            "{} corrupt, {} replaced",
            found->pages, found->files,
            std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), found->torn,
            found->foreign, found->corrupt, found->replaced);
  turn_.scanned = true;
}

bool disk_service::turn() {
  now_ = disk_clock::now();
  bool moved = run_commands();
  std::array<storage::disk_completion, completions_per_turn> done;
  const auto count = io_->reap(done);
  for (std::size_t i = 0; i < count; ++i)
    tier_->on_completion(done[i]);
  storage::disk_tier_events events;
  tier_->poll(now_, unix_seconds(), events);
  take(events);
  const auto stats = tier_->stats();
  gate_.set_open(why_off_.empty() && !stats.read_only &&
                 stats.breaker != circuit_breaker::state::open);
  if (now_ >= report_at_) {
    report_at_ = now_ + report_every;
    publish_report();
  }
  return moved || count != 0 || !events.empty();
}

bool disk_service::run_commands() {
  std::vector<command> commands;
  {
    const std::lock_guard hold(lock_);
    commands.swap(commands_);
  }
  for (const auto& each : commands)
    each();
  return !commands.empty();
}

void disk_service::take(const storage::disk_tier_events& events) {
  for (const auto& event : events.done)
    if (event.what == storage::disk_event::kind::written)
      written(event);
    else
      was_read(event);
  for (const auto& eviction : events.gone) {
    disk_turn::left left;
    left.ticket = eviction.ticket;
    for (const auto& page : eviction.pages)
      append_record(left.keys, page.key);
    turn_.gone.push_back(std::move(left));
  }
}

void disk_service::written(const storage::disk_event& event) {
  const auto found = keeping_.find(event.tag);
  const auto kept = found->second;
  keeping_.erase(found);
  if (event.status == disk_status::ok) {
    write_latency_.record(now_ - kept.since);
    append_record(turn_.stored, stored_page{kept.page.key, kept.page.gen, kept.page.checksum,
                                            kept.page.length_bytes, 0});
  }
  let_go(kept.page);
}

void disk_service::was_read(const storage::disk_event& event) {
  const auto found = loading_.find(event.tag);
  const auto load = found->second;
  loading_.erase(found);
  if (event.status == disk_status::ok) {
    read_latency_.record(now_ - load.since);
    loads_.at(load.request).pages[load.index].found = 1;
  }
  finish_load(load.request);
}

void disk_service::let_go(const kept_page& page) {
  slots_.unpin(page.slot);
  gate_.leave(storage::in_blocks(page.length_bytes));
}

void disk_service::shut_down() {
  gate_.set_open(false);
  storage::disk_tier_events events;
  run_commands();
  tier_->close(close_at_most, events);
  take(events);
  publish_report();
}

// -- the report

disk_report disk_service::report() const {
  const std::lock_guard hold(lock_);
  return report_;
}

void disk_service::publish_report() {
  disk_report now;
  now.on = on() && why_off_.empty();
  now.why_off = why_off_;
  now.path = path_;
  now.scanned = scanned();
  now.bytes_capacity = config_.size_bytes;
  if (on()) {
    const auto stats = tier_->stats();
    now.store = tier_->store().name();
    now.io = io_->name();
    now.why_fallback = why_fallback_;
    now.bytes_used = stats.store.used_bytes;
    now.pages = stats.store.pages;
    now.page_bytes = stats.store.page_bytes;
    now.files = stats.store.files;
    now.queue_bytes = stats.queue_bytes;
    now.queue_pages = stats.queue_pages;
    now.writes = stats.writes;
    now.written_bytes = stats.written_bytes;
    now.write_errors = stats.write_errors;
    for (std::size_t i = 1; i < stats.skipped.size(); ++i)
      now.skipped[std::string(to_string(static_cast<storage::write_skip>(i)))] = stats.skipped[i];
    now.skipped["queue_full"] += gate_.refused();
    now.reads = stats.reads;
    now.read_bytes = stats.read_bytes;
    now.read_errors = stats.read_errors;
    now.checksum_failures = stats.checksum_failures;
    now.evicted = stats.evicted;
    now.expired = stats.expired;
    now.scrubbed_bytes = stats.scrubbed_bytes;
    now.breaker_opened = stats.breaker_opened;
    now.breaker = to_string(stats.breaker);
    now.read_only = stats.read_only;
    now.verifying = tier_->verifying();
    now.write_latency = latency_report{write_latency_.snapshot()};
    now.read_latency = latency_report{read_latency_.snapshot()};
  }
  now.recovered = recovered_.pages;
  now.torn = recovered_.torn;
  now.foreign = recovered_.foreign;
  now.replaced = recovered_.replaced;
  now.corrupt = recovered_.corrupt;
  const std::lock_guard hold(lock_);
  report_ = std::move(now);
}

} // namespace peercache::actors
