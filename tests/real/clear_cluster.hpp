#pragma once

#include "bench/page_content.hpp"
#include "client/admin_client.hpp"
#include "client/cache_client.hpp"
#include "local_ring.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::real::clear_test {

using metrics::metric;

using client::cache_client;

inline constexpr std::uint32_t page_bytes = 16384;
inline constexpr std::uint32_t pages = 16; ///< Pages of each engine in each space.
inline constexpr milliseconds patience(30'000);
inline constexpr milliseconds clear_time(15'000);
inline constexpr std::string_view cleared = "llama";
inline constexpr std::string_view other = "qwen";

inline page_key key_in(std::string_view space, std::uint32_t id) {
  return key_space{std::span{&space, 1}}.key_of(std::to_string(id));
}

/// Returns how many of the pages [first, first + count) of a space this client gets with the bytes
/// of `version`. Expects that no hit has wrong bytes.
inline std::uint32_t hits_of(cache_client& engine, std::string_view space, std::uint32_t first,
                             std::uint32_t count, std::uint32_t version) {
  std::vector<page_key> keys;
  std::vector<std::vector<std::byte>> bytes(count, std::vector<std::byte>(page_bytes));
  std::vector<page_part> parts;
  for (std::uint32_t i = 0; i < count; ++i) {
    keys.push_back(key_in(space, first + i));
    parts.push_back({bytes[i].data(), page_bytes});
  }
  std::vector<client::get_page> wanted;
  for (std::uint32_t i = 0; i < count; ++i)
    wanted.push_back({keys[i], {&parts[i], 1}});
  std::vector<client::page_result> results(count);
  engine.get(wanted, results);
  std::uint32_t hits = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (results[i].status != page_status::hit)
      continue;
    const auto check = bench::check_page(first + i, bytes[i]);
    EXPECT_EQ(check.wrong_bytes, 0u) << first + i;
    hits += check.version == version ? 1 : 0;
  }
  return hits;
}

inline std::uint32_t found_by(cache_client& engine, std::string_view space, std::uint32_t first,
                              std::uint32_t count) {
  std::vector<page_key> keys;
  for (std::uint32_t i = 0; i < count; ++i)
    keys.push_back(key_in(space, first + i));
  std::vector<client::page_result> results(count);
  engine.exists(keys, results);
  return static_cast<std::uint32_t>(
      std::count_if(results.begin(), results.end(),
                    [](const auto& page) { return page.status == page_status::hit; }));
}

inline void set(cache_client& engine, std::string_view space, std::uint32_t first,
                std::uint32_t count, std::uint32_t version) {
  for (auto id = first; id < first + count; ++id) {
    std::vector<std::byte> bytes(page_bytes);
    bench::fill_page(id, version, bytes);
    client::const_part part{bytes.data(), page_bytes};
    client::set_page page{key_in(space, id), {&part, 1}};
    client::page_result result;
    engine.set({&page, 1}, {&result, 1});
  }
}

/// A thread that checks all the time whether an engine finds or reads a page that was set before
/// the clear.
class watch {
public:
  watch(cache_client& engine, std::uint32_t all_pages)
      : thread_([this, &engine, all_pages] {
          for (; !stop_; ++looks_) {
            if (found_by(engine, cleared, 0, all_pages) != 0)
              ++found_;
            read_ += hits_of(engine, cleared, 0, all_pages, 0);
            std::this_thread::sleep_for(milliseconds(2));
          }
        }) {}
  ~watch() {
    stop_ = true;
    thread_.join();
  }
  watch(const watch&) = delete;
  watch& operator=(const watch&) = delete;

  std::uint32_t looks() const { return looks_; }
  std::uint32_t read() const { return read_; }
  std::uint32_t found() const { return found_; }

private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> looks_{0}, read_{0}, found_{0};
  std::thread thread_;
};

/// Three nodes with disks, an engine at each, and pages of each engine in two spaces. Pages of
/// version 0 are set before the clear, pages of version 1 after it.
class cluster {
public:
  static constexpr std::size_t count = 3;

  void start() {
    auto folder = cli::run_folder::make("peercache-clear");
    ASSERT_TRUE(folder) << folder.error().message;
    folder_ = std::make_unique<cli::run_folder>(std::move(*folder));
    cli::local_cluster_options options{.count = count, .folder = folder_->path()};
    auto& each = options.prototype;
    each.program = PEERCACHE_CLI_DIR "/peercache-node";
    each.cluster = "clear-" + std::to_string(::getpid());
    each.pool_bytes = 8u << 20;
    each.flags = disk_flags();
    auto nodes = cli::start_local_cluster(options);
    ASSERT_TRUE(nodes) << nodes.error().message;
    nodes_ = std::move(*nodes);
    for (std::size_t i = 0; i < count; ++i)
      open_engine(i);
    for (std::size_t i = 0; i < count; ++i) {
      put(i, cleared);
      put(i, other);
    }
    for (std::size_t i = 0; i < count; ++i)
      for (const auto space : {cleared, other})
        ASSERT_TRUE(within(
            patience, [&] { return hits_of(engine(i), space, 0, all_pages(), 0) == all_pages(); }))
            << "engine " << i << " finds " << space;
  }
  void stop() {
    if (testing::Test::HasFailure() && folder_)
      folder_->keep();
    for (auto& each : watches_)
      each.reset();
    for (auto& each : engines_)
      each.reset();
    cli::stop_nodes(nodes_, milliseconds(20'000));
  }

  static constexpr std::uint32_t all_pages() { return count * pages; }
  /// Number of pages that are watched: those that `all_pages` counts, and after them the pages that
  /// some tests set right before the clear.
  static constexpr std::uint32_t watched_pages() { return all_pages() + pages; }
  cache_client& engine(std::size_t i) { return *engines_[i]; }
  cli::node_process& node(std::size_t i) { return nodes_[i]; }
  std::string name(std::size_t i) const { return nodes_[i].launch().name; }

  void open_engine(std::size_t i) {
    engines_[i].reset();
    client::client_options options;
    options.node_port = nodes_[i].ports().control_port;
    options.cluster = nodes_[i].launch().cluster;
    ASSERT_TRUE(within(patience, [&] {
      auto made = cache_client::connect(options);
      if (made)
        engines_[i] = std::move(*made);
      return static_cast<bool>(made);
    }));
  }
  void put(std::size_t i, std::string_view space, std::uint32_t version = 0) {
    set(engine(i), space, static_cast<std::uint32_t>(i) * pages, pages, version);
    const auto flushed = engine(i).flush(clock::now() + patience);
    ASSERT_TRUE(flushed) << flushed.error().message;
  }

  // --- Functions that act on nodes.

  /// Waits until all pages that this node has set are on its disk.
  void settle_disk(std::size_t i) {
    ASSERT_TRUE(within(patience, [&] {
      auto admin = admin_of(i);
      auto status = admin ? admin->status() : result<client::node_status>(errc::unreachable, "");
      return status && status->samples.value(metric::disk_scanned_ratio) >= 1 &&
             status->count(metric::disk_queue_bytes) == 0 &&
             status->count(metric::disk_records) >= 2 * pages;
    }));
  }
  /// Fills the node's memory with pages of a third space, so that its earlier pages leave memory.
  void push_out(std::size_t i) {
    settle_disk(i);
    for (std::uint32_t round = 0; round < 10; ++round) {
      set(engine(i), "filler", 10'000 + round * 64, 64, 0);
      ASSERT_TRUE(engine(i).flush(clock::now() + patience));
    }
  }
  void stop_node(std::size_t i) { EXPECT_EQ(nodes_[i].stop(milliseconds(20'000)), 0); }
  void kill_node(std::size_t i) { nodes_[i].process().kill_now(); }
  void freeze(std::size_t i) { freeze_process(nodes_[i].process()); }
  void thaw(std::size_t i) { nodes_[i].process().signal(SIGCONT); }
  void restart(std::size_t i, std::vector<std::string> seeds = {}) {
    if (seeds.empty())
      for (const auto& each : nodes_)
        seeds.push_back(each.address());
    const auto restarted = nodes_[i].restart(seeds);
    ASSERT_TRUE(restarted) << restarted.error().message;
  }
  /// Kills this node and starts it again without its disk tier.
  void restart_without_disk(std::size_t i) {
    auto launch = nodes_[i].launch();
    launch.control_port = nodes_[i].ports().control_port;
    launch.data_port = nodes_[i].ports().data_port;
    launch.http_port = nodes_[i].ports().http_port;
    launch.flags.clear();
    for (const auto& each : nodes_)
      launch.seeds.push_back(each.address());
    nodes_[i].process().kill_now();
    auto made = cli::node_process::start(launch);
    ASSERT_TRUE(made) << made.error().message;
    nodes_[i] = std::move(*made);
  }
  void restart_with_disk(std::size_t i) {
    auto launch = nodes_[i].launch();
    launch.flags = disk_flags();
    nodes_[i].process().kill_now();
    auto made = cli::node_process::start(launch);
    ASSERT_TRUE(made) << made.error().message;
    nodes_[i] = std::move(*made);
  }
  void wait_for_members(std::size_t members) {
    for (const auto& each : nodes_)
      if (auto joined = cli::wait_for_members(each, members, patience); !joined)
        ADD_FAILURE() << joined.error().message;
  }
  /// Waits until the view of this node has `members` members.
  void wait_for_view(std::size_t i, std::size_t members) {
    auto admin = admin_of(i);
    ASSERT_NE(admin, nullptr);
    ASSERT_TRUE(within(patience, [&] {
      const auto view = admin->view();
      return view && view->members.size() == members;
    }));
  }

  // --- Functions that clear and that expect something of the engines.

  client::clear_result clear(std::size_t i, milliseconds at_most = clear_time) {
    return engine(i).clear(cleared, clock::now() + at_most);
  }
  /// Clears the space by way of this node and expects that the clear is certain. From then on
  /// watches all engines.
  void clear_for_certain(std::size_t i) {
    const auto said = clear(i);
    ASSERT_TRUE(said.certain) << said.why_not;
    watch_all();
  }
  /// Clears the space by way of node `i` and expects that the clear is uncertain because of node
  /// `away`. From then on watches the engines of all other nodes.
  void clear_but_for(std::size_t i, std::size_t away, milliseconds at_most = milliseconds(1500)) {
    const auto said = clear(i, at_most);
    EXPECT_FALSE(said.certain);
    EXPECT_NE(said.why_not.find(name(away)), std::string::npos) << said.why_not;
    for (std::size_t each = 0; each < count; ++each)
      if (each != away && said.why_not.find(name(each)) == std::string::npos)
        watch_engine(each);
    // On a busy machine another node may not have answered in time; it hears of the clear later.
    for (std::size_t each = 0; each < count; ++each)
      if (each != away && engines_[each] && !watches_[each])
        wait_until_gone(each);
  }
  void watch_all() {
    for (std::size_t i = 0; i < count; ++i)
      watch_engine(i);
  }
  void watch_engine(std::size_t i) {
    if (!watches_[i] && engines_[i])
      watches_[i] = std::make_unique<watch>(engine(i), watched_pages());
  }
  bool finds_any(std::size_t i) {
    return found_by(engine(i), cleared, 0, watched_pages()) +
               hits_of(engine(i), cleared, 0, watched_pages(), 0) !=
           0;
  }
  /// Waits until this node, which missed the clear, has heard of it. From then on watches the
  /// node's engine.
  void wait_until_gone(std::size_t i) {
    ASSERT_TRUE(within(patience, [&] { return !finds_any(i); })) << "engine " << i;
    watch_engine(i);
  }
  /// Expects that no engine had or has a page from before the clear, that the cleared space can be
  /// used again, and that the other space is as it was.
  void finish() {
    watch_all();
    for (const auto& each : watches_)
      EXPECT_TRUE(within(patience, [&] { return each->looks() > 3; }));
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(within(patience,
                         [&] {
                           set(engine(i), cleared, 1000 + static_cast<std::uint32_t>(i), 1, 1);
                           const auto flushed = engine(i).flush(clock::now() + patience);
                           return flushed &&
                                  hits_of(engine(i), cleared, 1000 + static_cast<std::uint32_t>(i),
                                          1, 1) == 1;
                         }))
          << "engine " << i << " uses the space again";
      EXPECT_FALSE(finds_any(i)) << "engine " << i;
    }
    const auto kept = [&] { return hits_of(engine(0), other, 0, pages, 0); };
    EXPECT_TRUE(within(patience, [&] { return kept() == pages; }))
        << "the other space has " << kept() << " of " << pages;
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(watches_[i]->read(), 0u) << "engine " << i << " has read pages of before";
      EXPECT_EQ(watches_[i]->found(), 0u) << "engine " << i << " has found pages of before";
    }
  }
  void stop_watching(std::size_t i) {
    if (watches_[i]) {
      EXPECT_EQ(watches_[i]->read() + watches_[i]->found(), 0u) << "engine " << i;
      watches_[i].reset();
    }
  }
  /// Gives node `i`'s engine a new client, as when the engine's process restarts.
  void restart_engine(std::size_t i) {
    stop_watching(i);
    open_engine(i);
  }
  std::unique_ptr<client::admin_client> admin_of(std::size_t i) {
    auto made = client::admin_client::connect("127.0.0.1", nodes_[i].ports().control_port,
                                              nodes_[i].launch().cluster, milliseconds(2000));
    return made ? std::move(*made) : nullptr;
  }

private:
  std::vector<std::string> disk_flags() const {
    return {"--disk-path",        (folder_->path() / "disks").string(),
            "--disk-size",        "256MiB",
            "--disk-bucket-size", "1MiB"};
  }

  std::unique_ptr<cli::run_folder> folder_;
  std::vector<cli::node_process> nodes_;
  std::array<std::unique_ptr<cache_client>, count> engines_;
  std::array<std::unique_ptr<watch>, count> watches_;
};

} // namespace peercache::real::clear_test
