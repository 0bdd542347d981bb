#pragma once

#include "rdma/data_plane_loop.hpp"
#include "rdma/read_lane.hpp"
#include "tests/rdma/verbs/verbs_rig.hpp"
#include "tests/verbs/failed_work.hpp"

#include <thread>

namespace peercache::rdma {

/// A node's pages: `pages` for comparison by the test, and `memory`, which peers READ.
struct node_pool {
  /// Sets the slots of the batch's pages to those of the served memory; copies each page there the
  /// first time.
  void place(test_batch& what) {
    for (std::size_t i = 0; i < what.batch.pages.size(); ++i)
      what.batch.pages[i].slot = memory.place(pages, what.from_slots[i]);
  }

  test_pool pages;
  readable_pool memory;
};

/// The serving part of a node: a page server and a rail server for each device, each with a thread
/// of its own.
class serving_node {
public:
  /// Starts the node. @param port 0: the kernel chooses one
  serving_node(const served_region& pool, const incarnation& inc,
               const std::vector<std::string>& devices, std::uint16_t port = 0,
               bool windows = false)
      : inc_(inc), windows_(windows) {
    for (const auto& device : devices)
      add_rail(pool, device, static_cast<std::uint8_t>(devices.size()));
    tcp_page_server_options accepting;
    accepting.port = port;
    accepting.cluster = "test";
    accepting.inc = inc;
    accepting.on_verbs_hello = [this](net::stream_socket socket, const verbs_hello& greeting,
                                      auto came_at) {
      rails_[greeting.rail % rails_.size()]->accept(std::move(socket), greeting, came_at);
    };
    auto made = tcp_page_server::listen(accepting, no_pages_);
    if (!made)
      throw std::runtime_error(made.error().message);
    acceptor_ = std::move(*made);
    threads_.emplace_back([this] { run(*acceptor_); });
    for (auto& rail : rails_)
      threads_.emplace_back([this, &rail] { run(*rail); });
  }

  ~serving_node() {
    stop_ = true;
    acceptor_->wake();
    for (auto& rail : rails_)
      rail->wake();
    for (auto& thread : threads_)
      thread.join();
  }
  serving_node(const serving_node&) = delete;
  serving_node& operator=(const serving_node&) = delete;

  peer_endpoint endpoint() const {
    return {{1},         inc_,
            "127.0.0.1", acceptor_->port(),
            "test",      static_cast<std::uint8_t>(rails_.size())};
  }
  /// Serves memory beside the pool over all rails.
  void add_area(std::span<std::byte> memory) {
    for (auto& rail : rails_)
      if (const auto added = rail->add_area(memory); !added)
        throw std::runtime_error(added.error().message);
  }
  verbs_rail_stats stats(std::size_t rail = 0) const { return rails_[rail]->stats(); }

private:
  /// A page source without pages, because no test reads over TCP.
  struct no_pages final : page_source {
    page_status pin(slot_id, generation, const page_key&, std::uint32_t,
                    std::span<const std::byte>&) override {
      return page_status::stale;
    }
    void unpin(slot_id) override {}
  };

  void add_rail(const served_region& pool, const std::string& name, std::uint8_t rails) {
    auto device = verbs::device::open(name, {});
    if (!device)
      throw std::runtime_error(device.error().message);
    verbs_server_options options;
    options.cluster = "test";
    options.inc = inc_;
    options.node = "server";
    options.rail = static_cast<std::uint8_t>(rails_.size());
    options.rails = rails;
    options.windows = windows_;
    auto made = verbs_rail_server::create(std::move(*device), options, pool);
    if (!made)
      throw std::runtime_error(made.error().message);
    while ((*made)->regions().register_next()) {
    }
    rails_.push_back(std::move(*made));
  }

  template <class Server>
  void run(Server& server) {
    while (!stop_)
      if (!server.poll(clock::now()))
        server.wait(std::chrono::milliseconds(100));
  }

  const incarnation inc_;
  const bool windows_;
  no_pages no_pages_;
  std::vector<std::unique_ptr<verbs_rail_server>> rails_;
  std::unique_ptr<tcp_page_server> acceptor_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// A data plane over one rail, as in a reading process, with its thread.
class reading_rail {
public:
  explicit reading_rail(const std::string& device, std::uint8_t index = 0)
      : reading_rail(device, few_at_a_time(index)) {}
  reading_rail(const std::string& device, verbs_data_plane_options options) {
    options.reader = {7, 7};
    options.name = "reader";
    options.channels.connect_timeout = std::chrono::seconds(5);
    auto opened = reader_rail::open(device, {}, options);
    if (!opened)
      throw std::runtime_error(opened.error().message);
    rail_ = std::move(*opened);
    auto made = make_verbs_data_plane(*rail_);
    if (!made)
      throw std::runtime_error(made.error().message);
    plane_ = std::move(*made);
    data_plane_loop_options loop_options;
    loop_options.callers = callers_run::polling;
    loop_ = std::make_unique<data_plane_loop>(*plane_, loop_options);
    thread_ = std::thread([this] { loop_->run(stop_); });
  }
  ~reading_rail() {
    stop_ = true;
    loop_->wake();
    thread_.join();
    if (testing::Test::HasFailure())
      std::cout << "work requests that failed: " << failed_work(rail_->counters) << "\n";
  }
  reading_rail(const reading_rail&) = delete;
  reading_rail& operator=(const reading_rail&) = delete;

  void submit(read_batch& batch) { loop_->submit(batch); }
  const rail_counters& counters() const { return rail_->counters; }
  destination_memory& destinations() { return *rail_->destinations; }

  /// Returns how many pages have ended with this status since the rail was made. Waits up to 10 s
  /// until there are `at_least`, because the rail counts pages a moment after it has completed
  /// them.
  std::uint64_t counted(page_status status, std::uint64_t at_least) const {
    const auto until = clock::now() + std::chrono::seconds(10);
    for (;;) {
      const auto count = plane_->stats().by_status[static_cast<std::size_t>(status)];
      if (count >= at_least || clock::now() >= until)
        return count;
      std::this_thread::yield();
    }
  }

  std::unique_ptr<read_lane> lane() {
    auto made = std::make_unique<read_lane>();
    made->how = read_lane::kind::rail;
    made->submit = [this](read_batch& batch) { submit(batch); };
    made->read_now = [this](read_batch& batch) { loop_->read_now(batch); };
    made->cancel = [this](const read_batch& batch) { loop_->cancel(batch); };
    made->usable = &rail_->counters.usable;
    return made;
  }

private:
  /// Few READs at a time, because a READ that waits behind many others would be taken for lost on
  /// this slow device.
  static verbs_data_plane_options few_at_a_time(std::uint8_t index) {
    verbs_data_plane_options options;
    options.rail = index;
    options.send_depth = 16;
    options.outstanding_reads = 2;
    return options;
  }

  std::unique_ptr<reader_rail> rail_;
  std::unique_ptr<channel_data_plane> plane_;
  std::unique_ptr<data_plane_loop> loop_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Keeps the memory of a batch registered with rails while it lives.
class registered {
public:
  registered(test_batch& what, const std::vector<reading_rail*>& rails)
      : begin_(what.memory.data()), rails_(rails) {
    for (auto* rail : rails_)
      EXPECT_TRUE(rail->destinations().add(what.memory));
  }
  ~registered() {
    for (auto* rail : rails_)
      EXPECT_TRUE(rail->destinations().remove(begin_));
  }
  registered(const registered&) = delete;
  registered& operator=(const registered&) = delete;

private:
  const std::byte* const begin_;
  const std::vector<reading_rail*> rails_;
};

inline void expect_all_hits(const test_batch& what, const test_pool& pool) {
  for (std::size_t i = 0; i < what.batch.pages.size(); ++i) {
    ASSERT_EQ(to_string(what.batch.pages[i].status), "hit") << "page " << i;
    ASSERT_TRUE(what.holds(pool, i)) << "page " << i;
  }
  EXPECT_TRUE(what.guards_untouched());
}

} // namespace peercache::rdma
