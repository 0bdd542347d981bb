#include "survival_ring.hpp"

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

namespace peercache::real {

namespace {

/// Engines at all nodes, one thread: each access reads a page, and puts it when it misses.
class trace {
public:
  using get_page = std::function<page_status(std::size_t node, std::uint32_t id)>;
  using put_page = std::function<void(std::size_t node, std::uint32_t id)>;

  trace(std::size_t nodes, get_page get, put_page put)
      : nodes_(nodes), get_(std::move(get)), put_(std::move(put)) {}

  /// Some pages are wanted far more often than others, as prefixes are.
  void run(std::uint32_t first, std::uint32_t accesses) {
    std::mt19937_64 random(1);
    for (done = 0, hits = 0; done < accesses && !stop; ++done) {
      auto drawn = random() % 600;
      auto id = first + static_cast<std::uint32_t>(drawn * (random() % 600) / 600);
      auto node = random() % nodes_;
      if (get_(node, id) == page_status::hit)
        ++hits;
      else
        put_(node, id);
      std::this_thread::sleep_for(std::chrono::microseconds(500)); // The engine computes.
    }
  }
  double hit_rate() const { return static_cast<double>(hits) / static_cast<double>(done); }

  std::atomic<std::uint32_t> done{0};
  std::atomic<std::uint32_t> hits{0};
  std::atomic<bool> stop{false};

private:
  std::size_t nodes_;
  get_page get_;
  put_page put_;
};

class rolling : public survival_ring {
protected:
  void make_clients(std::size_t count) {
    for (std::size_t i = clients_.size(); i < count; ++i)
      clients_.push_back(client_of(i));
  }
  void TearDown() override {
    clients_.clear();
    survival_ring::TearDown();
  }
  trace make_trace() {
    return {clients_.size(),
            [this](std::size_t node, std::uint32_t id) {
              auto read = get(*clients_[node], id, milliseconds(500));
              EXPECT_TRUE(read.result.status != page_status::hit || read.check.wrong_bytes == 0);
              EXPECT_LE(read.took, milliseconds(550));
              from_disk_ += read.result.origin == page_origin::disk ? 1 : 0;
              return read.result.status;
            },
            [this](std::size_t node, std::uint32_t id) { put_one(*clients_[node], id, 0); }};
  }

  std::uint32_t from_disk() const { return from_disk_; }

private:
  std::vector<std::unique_ptr<client::cache_client>> clients_;
  std::atomic<std::uint32_t> from_disk_{0};
};

} // namespace

TEST_F(rolling, a_restart_of_all_nodes_one_after_another_costs_a_tenth_of_the_hits_at_most) {
  start_ring({.count = 3, .disk = true});
  if (HasFatalFailure())
    return;
  make_clients(3);
  auto engines = make_trace();
  constexpr std::uint32_t accesses = 8000;
  engines.run(0, accesses);
  auto undisturbed = engines.hit_rate();
  std::thread thread([&] { engines.run(10'000, accesses); });
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(within(milliseconds(60'000),
                       [&] { return engines.done >= (i + 1) * accesses / 4 && sees(i, 3); }));
    EXPECT_EQ(node(i).stop(milliseconds(10'000)), 0);
    auto back = restart(i);
    EXPECT_TRUE(back) << back.error().message;
  }
  EXPECT_LT(engines.done, accesses) << "the last restart was in the trace";
  thread.join();
  EXPECT_GE(engines.hit_rate(), 0.9 * undisturbed)
      << "undisturbed " << undisturbed << ", disturbed " << engines.hit_rate();
  // What a restarted node had in memory is on its disk, and nowhere else.
  EXPECT_GT(from_disk(), 100u);
  RecordProperty("from disk", std::to_string(from_disk()));
  RecordProperty("undisturbed", std::to_string(undisturbed));
  RecordProperty("disturbed", std::to_string(engines.hit_rate()));
}

TEST_F(rolling, a_fifth_node_that_joins_costs_a_twentieth_of_the_hits_at_most) {
  start_ring({.count = 4});
  if (HasFatalFailure())
    return;
  make_clients(4);
  auto engines = make_trace();
  engines.run(0, 3000); // All pages are there now.
  engines.run(0, 1000);
  auto steady = engines.hit_rate();
  std::thread thread([&] { engines.run(0, 1'000'000); });
  start_node({address(0)});
  EXPECT_TRUE(within(milliseconds(10'000), [this] { return one_view({0, 1, 2, 3, 4}); }));
  // Keys change their owners now; then it is over.
  const auto joined_at = engines.done.load();
  EXPECT_TRUE(within(milliseconds(10'000), [&] { return engines.done >= joined_at + 500; }));
  engines.stop = true;
  thread.join();
  EXPECT_GE(engines.hit_rate(), 0.95 * steady)
      << "steady " << steady << ", while joining " << engines.hit_rate() << " of " << engines.done;
}

} // namespace peercache::real
