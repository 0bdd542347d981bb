#pragma once

#include "storage/disk/disk_index.hpp"
#include "storage/disk/disk_store.hpp"

#include <map>
#include <utility>

namespace peercache::storage {

/// A disk_store without files: at the poll after a request it ends the request as the test says.
class scripted_store final : public disk_store {
public:
  std::string_view name() const noexcept override { return "scripted"; }
  result<recovery_report> recover(const recovery_options&,
                                  const std::function<void(const disk_page&)>&) override {
    return recovery_report{};
  }
  bool write(const disk_write& page) override {
    if (busy)
      return false;
    written.push_back(page);
    return true;
  }
  bool read(const disk_read& page) override {
    if (busy)
      return false;
    if (lru && page.counts)
      index.touch(page.key);
    read_.push_back(page);
    return true;
  }
  const disk_page* find(const page_key& key) const override {
    const auto* entry = index.find(key);
    return entry ? &entry->page : nullptr;
  }
  bool erase(const page_key& key) override { return index.erase(key).has_value(); }
  disk_eviction begin_eviction(std::uint64_t bytes) override {
    disk_eviction chosen;
    for (std::uint64_t sum = 0; sum < bytes && !index.empty();) {
      chosen.pages.push_back(index.oldest().page);
      sum += index.oldest().page.length_bytes;
      index.erase(chosen.pages.back().key);
    }
    chosen.ticket = chosen.pages.empty() ? 0 : ++tickets;
    return chosen;
  }
  void finish_eviction(std::uint64_t ticket) override { finished.push_back(ticket); }
  std::uint64_t walk(std::uint64_t after, std::uint32_t count,
                     const std::function<void(const disk_page&)>& visit) const override {
    return index.walk(after, count, visit);
  }
  void refill() override { ++refills; }
  void on_completion(const disk_completion&) override { refills_at_completion.push_back(refills); }
  void poll(disk_clock::time_point, std::uint64_t unix_s,
            std::vector<disk_event>& events) override {
    if (stalled)
      return;
    for (const auto& page : std::exchange(written, {})) {
      if (device == disk_status::ok)
        index.insert({{page.key, page.gen, page.checksum, unix_s, page.length_bytes}, 0, 0});
      events.push_back({disk_event::kind::written, device, page.tag, page.key});
    }
    for (const auto& page : std::exchange(read_, {})) {
      const auto what = rotten.contains(page.key) ? disk_status::corrupt : device;
      if (what == disk_status::corrupt && !replaces_rotten)
        index.erase(page.key);
      events.push_back({disk_event::kind::read, what, page.tag, page.key});
    }
  }
  disk_clock::time_point next_due() const override { return disk_clock::time_point::max(); }
  void close(std::chrono::nanoseconds, std::vector<disk_event>& events) override {
    stalled = false;
    device = disk_status::refused;
    poll({}, 0, events);
  }
  disk_store_stats stats() const override {
    disk_store_stats now;
    now.page_bytes = index.page_bytes();
    now.used_bytes = now.page_bytes + own_bytes;
    now.pages = index.size();
    return now;
  }

  disk_index index;
  disk_status device = disk_status::ok;
  bool busy = false;    ///< Whether the store refuses all requests for now.
  bool stalled = false; ///< Whether the store ends no request.
  bool lru = false;     ///< Whether a read makes its page the last to be evicted.
  std::map<page_key, bool> rotten;
  std::uint64_t own_bytes = 0; ///< Bytes that the store uses in addition to its pages.
  /// Whether the store has another record of the page by the time that a read ends as `corrupt`.
  bool replaces_rotten = false;
  std::vector<disk_write> written;
  std::vector<disk_read> read_;
  std::vector<std::uint64_t> finished;
  std::uint64_t tickets = 0;
  int refills = 0;
  std::vector<int> refills_at_completion;
};

} // namespace peercache::storage
