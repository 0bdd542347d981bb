#include "actors/disk/disk_service.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"
#include "common/unix_time.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <thread>

// The loop of the disk's thread: scan, turns, report.
namespace peercache::actors {
namespace {

using namespace std::chrono_literals;
using metrics::metric;
using storage::disk_clock;
using storage::disk_status;

constexpr auto sleep_max = 100ms;
constexpr auto rest_max = 1000ms; ///< The longest sleep of a thread that has nothing to do.
constexpr auto report_every = 100ms;
/// Longest wait of a stopping node for its disk.
constexpr auto close_at_most = 5s;
constexpr std::size_t completions_per_turn = 64;
/// Pages of the tier that one turn looks at in the walk of `forget_old`.
constexpr std::uint32_t forgotten_per_turn = 1024;

/// Returns the wall clock's seconds since 1970. Page ages need the time of day, because they
/// outlive the process that wrote the page. A clock that jumps makes pages expire early or late,
/// which is a miss.
std::uint64_t unix_seconds() noexcept {
  return static_cast<std::uint64_t>(std::time(nullptr));
}

void say(const std::vector<disk_incidents::line>& lines) {
  for (const auto& line : lines)
    log::log(line.well ? log::level::info : log::level::warn, "disk tier: {}", line.text);
}

std::string_view to_string(circuit_breaker::state state) noexcept {
  switch (state) {
  case circuit_breaker::state::closed:
    return "closed";
  case circuit_breaker::state::open:
    return "open";
  case circuit_breaker::state::half_open:
  case circuit_breaker::state::recovering:
    return "half_open";
  }
  return "unknown";
}

} // namespace

// -- the disk's thread

void disk_service::run(const std::function<void(disk_turn_ptr)>& tell) {
  if (!on())
    return;
  // The pool's memory is registered with io_uring where the limit on locked memory allows it,
  // because this makes transfers cheaper.
  if (auto cheaper = io_->register_memory(memory_.readable_region()); !cheaper)
    log::info("disk tier: the pool is not registered with io_uring: {}", cheaper.error().message);
  scan();
  turn_at_ = disk_clock::now().time_since_epoch().count();
  while (!stop_.load(std::memory_order_acquire)) {
    const bool moved = turn();
    if (!turn_.empty())
      tell(std::make_shared<disk_turn>(std::exchange(turn_, {})));
    if (!moved)
      io_->wait(std::clamp<std::chrono::nanoseconds>(tier_->next_due() - disk_clock::now(), 0ns,
                                                     rests_ ? rest_max : sleep_max));
  }
  turn_at_ = 0;
  shut_down();
  // Requests that were made before the device was closed get their answers. Pages that were stored
  // or left at the very end are not reported: this node is leaving the directory.
  disk_turn last;
  last.answers = std::exchange(turn_.answers, {});
  if (!last.empty())
    tell(std::make_shared<disk_turn>(std::move(last)));
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
    {
      const std::lock_guard hold(lock_);
      incidents_.is_off(why_off_, unix_ms());
    }
    publish_report();
    return;
  }
  recovered_ = *found;
  if (!epochs_.untouched())
    forgetting_from_ = 0;
  log::info("disk tier: {} pages in {} files found in {} ms; dropped: {} torn, {} foreign, "
            "{} corrupt, {} replaced",
            found->pages, found->files,
            std::chrono::duration_cast<std::chrono::milliseconds>(took).count(), found->torn,
            found->foreign, found->corrupt, found->replaced);
  turn_.scanned = true;
}

bool disk_service::turn() {
  now_ = disk_clock::now();
  turn_at_.store(now_.time_since_epoch().count(), std::memory_order_relaxed);
  bool moved = run_commands();
  moved = forget_some_old() || moved;
  std::array<storage::disk_completion, completions_per_turn> done;
  const auto count = io_->reap(done);
  for (std::size_t i = 0; i < count; ++i)
    if (done[i].error != 0)
      last_error_ = done[i].error;
  tier_->on_completions(*io_, {done.data(), count});
  storage::disk_tier_events events;
  tier_->poll(now_, unix_seconds(), events);
  take(events);
  // The gate stays open while the circuit breaker for writes is open, because only writes that come
  // through the gate can close the breaker.
  gate_.set_open(why_off_.empty() && !tier_->pauses());
  const bool did = moved || count != 0 || !events.empty();
  const bool reports = now_ >= report_at_;
  if (reports) {
    report_at_ = now_ + report_every;
    publish_report();
  }
  rests_ = reports && !did && may_rest();
  return did;
}

/// Whether the disk's thread has nothing to do until a command comes, apart from the tier's own
/// timers. A shut gate, a fault and a slow transfer end or begin without a command, so the thread
/// looks often while there are any.
bool disk_service::may_rest() const {
  if (!gate_.open() || !keeping_.empty() || !loads_.empty())
    return false;
  const std::lock_guard hold(lock_);
  return report_.breaker == "closed" && !report_.verifying && incidents_.open().empty();
}

/// Walks the next pages of the tier and erases those of cleared spaces. False when no walk is under
/// way.
bool disk_service::forget_some_old() {
  if (!forgetting_from_)
    return false;
  std::vector<page_key> old;
  const auto next = tier_->store().walk(*forgetting_from_, forgotten_per_turn,
                                        [&](const storage::disk_page& page) {
                                          if (epochs_.is_old(page.key))
                                            old.push_back(page.key);
                                        });
  disk_turn::left left;
  cleared_ += old.size();
  for (const auto& key : old) {
    tier_->erase(key);
    append_record(left.keys, key);
  }
  if (!left.keys.empty())
    turn_.gone.push_back(std::move(left));
  forgetting_from_ = next != 0 ? std::optional(next) : std::nullopt;
  return true;
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
  tell_of_known();
}

/// Reports as stored the pages that should be written and are on disk already, unless they left the
/// disk in the same turn.
void disk_service::tell_of_known() {
  for (const auto& page : std::exchange(known_, {})) {
    const auto* there = tier_->find(page.key);
    if (there != nullptr && there->checksum == page.checksum &&
        there->length_bytes == page.length_bytes)
      append_record(turn_.stored, stored_page{page.key, page.checksum, page.length_bytes, 0});
  }
}

void disk_service::written(const storage::disk_event& event) {
  const auto found = keeping_.find(event.tag);
  PEERCACHE_ASSERT(found != keeping_.end()); // Each write ends once.
  const auto kept = found->second;
  keeping_.erase(found);
  slowest_ = std::max<std::chrono::nanoseconds>(slowest_, now_ - kept.since);
  if (event.status == disk_status::ok && epochs_.is_old(kept.page.key)) {
    tier_->erase(kept.page.key); // The page's space was cleared during the write.
    ++cleared_;
  } else if (event.status == disk_status::ok) {
    write_latency_.record(now_ - kept.since);
    append_record(turn_.stored,
                  stored_page{kept.page.key, kept.page.checksum, kept.page.length_bytes, 0});
  }
  let_go(kept.page);
}

void disk_service::was_read(const storage::disk_event& event) {
  const auto found = loading_.find(event.tag);
  PEERCACHE_ASSERT(found != loading_.end()); // Each read ends once.
  const auto load = found->second;
  loading_.erase(found);
  slowest_ = std::max<std::chrono::nanoseconds>(slowest_, now_ - load.since);
  if (event.status == disk_status::ok) {
    read_latency_.record(now_ - load.since);
    auto& pages = loads_.at(load.request).pages;
    PEERCACHE_ASSERT(load.index < pages.size());
    auto& page = pages[load.index];
    // A page that left the disk during its read is not found: a promoted page counts as one that is
    // on disk too, and would be evicted from memory without being written.
    const auto* there = tier_->find(event.key);
    page.found = there != nullptr && there->checksum == page.checksum ? 1 : 0;
  }
  finish_load(load.request);
}

void disk_service::finish_load(std::uint64_t request) {
  auto& open = loads_.at(request);
  PEERCACHE_ASSERT(open.left > 0);
  if (--open.left != 0)
    return;
  disk_turn::answer answer;
  answer.request = request;
  for (const auto& page : open.pages)
    append_record(answer.records, page);
  turn_.answers.push_back(std::move(answer));
  loads_.erase(request);
}

void disk_service::let_go(const kept_page& page) {
  // `pool_disk::keep` pinned the slot and entered the gate.
  PEERCACHE_ASSERT(slots_.pins(page.slot) > 0 && gate_.bytes() > 0);
  slots_.unpin(page.slot);
  gate_.leave(storage::in_blocks(page.length_bytes));
}

void disk_service::shut_down() {
  gate_.set_open(false);
  storage::disk_tier_events events;
  run_commands();
  tier_->close(close_at_most, events);
  take(events);
  // Every slot that was lent to the disk is back.
  PEERCACHE_ASSERT(keeping_.empty() && loading_.empty());
  publish_report();
}

// -- the report

metrics::samples disk_service::samples() const {
  const std::lock_guard hold(lock_);
  auto now = samples_;
  // The gate also counts pages that the disk's thread has not seen yet.
  now.set(metric::disk_queue_bytes, gate_.bytes());
  incidents_.add_numbers(now);
  return now;
}

disk_report disk_service::report() const {
  const std::lock_guard hold(lock_);
  auto now = report_;
  now.verifying |= verify_asked_;
  now.faults = incidents_.open();
  return now;
}

void disk_service::publish_report() {
  disk_report now;
  metrics::samples numbers;
  const bool serves = on() && why_off_.empty();
  now.why_off = why_off_;
  now.path = path_;
  numbers.set(metric::disk_on, serves);
  numbers.set(metric::disk_scanned_ratio, scanned());
  numbers.set(metric::disk_bytes_capacity, config_.size_bytes);
  if (on()) {
    const auto stats = tier_->stats();
    log_incidents(stats);
    now.store = tier_->store().name();
    now.io = io_->name();
    now.why_fallback = why_fallback_;
    now.breaker = to_string(stats.breaker);
    now.verifying = tier_->verifying();
    numbers.set(metric::disk_breaker_open, serves && now.breaker != "closed");
    if (serves)
      numbers.set(metric::disk_info, {now.store, now.io}, 1);
    add_numbers(stats, numbers);
  }
  numbers.set(metric::disk_recovered_records, recovered_.pages);
  numbers.set(metric::disk_dropped_records, {"torn"}, recovered_.torn);
  numbers.set(metric::disk_dropped_records, {"foreign"}, recovered_.foreign);
  numbers.set(metric::disk_dropped_records, {"replaced"}, recovered_.replaced);
  numbers.set(metric::disk_dropped_records, {"corrupt"}, recovered_.corrupt);
  const std::lock_guard hold(lock_);
  samples_ = std::move(numbers);
  report_ = std::move(now);
}

void disk_service::add_numbers(const storage::disk_tier_stats& stats, metrics::samples& to) const {
  to.set(metric::disk_bytes, stats.store.used_bytes);
  to.set(metric::disk_records, stats.store.pages);
  to.set(metric::disk_record_bytes, stats.store.page_bytes);
  to.set(metric::disk_files, stats.store.files);
  to.set(metric::disk_queue_pages, stats.queue_pages);
  to.set(metric::disk_writes_total, stats.writes);
  to.set(metric::disk_written_bytes_total, stats.written_bytes);
  to.set(metric::disk_errors_total, {"write"}, stats.write_errors);
  for (std::size_t i = 1; i < stats.skipped.size(); ++i) {
    const auto why = static_cast<storage::write_skip>(i);
    to.set(metric::disk_skips_total, {to_string(why)}, stats.skipped[i] + gate_.skipped(why));
  }
  to.set(metric::disk_reads_total, stats.reads);
  to.set(metric::disk_read_bytes_total, stats.read_bytes);
  to.set(metric::disk_errors_total, {"read"}, stats.read_errors);
  to.set(metric::disk_checksum_failures_total, stats.checksum_failures);
  to.set(metric::disk_op_seconds, {"write"}, write_latency_.snapshot());
  to.set(metric::disk_op_seconds, {"read"}, read_latency_.snapshot());
  to.set(metric::disk_evictions_total, stats.evicted);
  to.set(metric::disk_expirations_total, stats.expired);
  to.set(metric::cleared_pages_total, {"disk"}, cleared_);
  to.set(metric::disk_scrubbed_bytes_total, stats.scrubbed_bytes);
  to.set(metric::disk_breaker_opened_total, stats.breaker_opened);
  to.set(metric::disk_read_only, stats.full);
}

void disk_service::log_incidents(const storage::disk_tier_stats& stats) {
  disk_look seen;
  seen.stats = stats;
  seen.last_error = last_error_;
  seen.slowest = std::exchange(slowest_, {});
  seen.verifying = tier_->verifying();
  seen.unix_ms = unix_ms();
  const std::lock_guard hold(lock_);
  say(incidents_.look(now_, seen));
}

void disk_service::watch() {
  const auto at = turn_at_.load(std::memory_order_relaxed);
  if (at == 0)
    return;
  const std::lock_guard hold(lock_);
  say(incidents_.look_at_thread(disk_clock::now(), time_point(time_point::duration(at)),
                                unix_ms()));
}

} // namespace peercache::actors
