#include "local_ring.hpp"

#include <atomic>
#include <httplib.h>
#include <thread>

namespace peercache::real {

namespace {

constexpr std::uint32_t readers = 16;
constexpr std::uint32_t big_page_bytes = 1u << 20;

/// A producer and sixteen other hosts that mirror what they read: all of it, or what they read
/// twice.
class hot_key : public testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    auto folder = cli::run_folder::make("peercache-hot");
    ASSERT_TRUE(folder) << folder.error().message;
    folder_ = std::make_unique<cli::run_folder>(std::move(*folder));
    cli::local_cluster_options options{.count = readers + 1, .folder = folder_->path()};
    options.prototype.program = PEERCACHE_CLI_DIR "/peercache-node";
    options.prototype.cluster = "hot-" + std::to_string(::getpid());
    options.prototype.pool_bytes = 32u << 20;
    options.prototype.flags = {"--pool-mirror", GetParam()};
    auto nodes = cli::start_local_cluster(options);
    ASSERT_TRUE(nodes) << nodes.error().message;
    nodes_ = std::move(*nodes);
  }
  void TearDown() override { cli::stop_nodes(nodes_, milliseconds(10'000)); }

  std::unique_ptr<client::cache_client> client_of(std::size_t index) {
    client::client_options options;
    options.node_port = nodes_[index].ports().control_port;
    options.cluster = nodes_.front().launch().cluster;
    options.timeout = milliseconds(10'000);
    auto connected = client::cache_client::connect(options);
    EXPECT_TRUE(connected);
    return connected ? std::move(*connected) : nullptr;
  }

  double bytes_sent(std::size_t index) {
    httplib::Client http{"127.0.0.1", nodes_[index].ports().http_port};
    auto answer = http.Get("/metrics");
    const std::string series = "\npeercache_data_bytes_sent_total ";
    auto line = answer ? answer->body.find(series) : std::string::npos;
    return line == std::string::npos ? -1 : std::stod(answer->body.substr(line + series.size()));
  }

  /// One page that the producer has.
  page_key store(const std::string& name) {
    static const key_space space;
    std::vector<std::byte> bytes(big_page_bytes);
    bench::fill_page(page_seed, 0, bytes);
    auto producer = client_of(0);
    client::const_part part{bytes.data(), big_page_bytes};
    client::set_page page{space.key_of(name), {&part, 1}};
    client::page_result stored;
    producer->set({&page, 1}, {&stored, 1});
    EXPECT_EQ(stored.status, page_status::stored);
    EXPECT_TRUE(producer->flush());
    return page.key;
  }

  /// Reads it, and waits until what the reader's host keeps of it is published.
  static page_origin read(client::cache_client& reader, const page_key& key) {
    std::vector<std::byte> bytes(big_page_bytes);
    rdma::page_part into{bytes.data(), big_page_bytes};
    client::get_page wanted{key, {&into, 1}};
    client::page_result result;
    reader.get({&wanted, 1}, {&result, 1});
    EXPECT_EQ(to_string(result.status), to_string(page_status::hit));
    EXPECT_EQ(bench::check_page(page_seed, bytes).wrong_bytes, 0u);
    EXPECT_TRUE(reader.flush());
    return result.origin;
  }

  /// How often a host must read a page until it keeps a copy.
  std::uint32_t reads_until_mirrored() const { return std::string(GetParam()) == "hot" ? 2 : 1; }

  static constexpr std::uint64_t page_seed = 7;
  std::unique_ptr<cli::run_folder> folder_;
  std::vector<cli::node_process> nodes_;
};

INSTANTIATE_TEST_SUITE_P(mirror, hot_key, testing::Values("all", "hot"),
                         [](const auto& info) { return std::string(info.param); });

} // namespace

TEST_P(hot_key, sixteen_readers_of_a_page_cost_its_producer_no_more_than_three) {
  const auto key = store("hot");
  for (std::uint32_t reader = 1; reader <= readers; ++reader) {
    auto client = client_of(reader);
    for (std::uint32_t i = 0; i < reads_until_mirrored(); ++i)
      read(*client, key);
    EXPECT_EQ(read(*client, key), page_origin::own_host) << "reader " << reader;
  }
  // Each has read the page from another host as often as that takes.
  const auto expected = double{readers} * reads_until_mirrored() * big_page_bytes;
  ASSERT_TRUE(within(milliseconds(20'000), [&] {
    double all = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      all += bytes_sent(i);
    return all >= expected;
  }));
  const auto sent = bytes_sent(0);
  std::printf("[ measured ] %u readers: the producer sent %.2f pages\n", readers,
              sent / big_page_bytes);
  EXPECT_LE(sent, 3.0 * big_page_bytes);
}

/// Nobody has a copy when all come at once; from then on the producer is left alone.
TEST_P(hot_key, sixteen_readers_at_once_leave_its_producer_alone_afterwards) {
  const auto key = store("hot");
  std::vector<std::unique_ptr<client::cache_client>> clients;
  for (std::uint32_t reader = 1; reader <= readers; ++reader)
    clients.push_back(client_of(reader));
  std::atomic<std::uint32_t> own_host{0};
  const auto all_read = [&] {
    own_host = 0;
    std::vector<std::thread> threads;
    for (auto& client : clients)
      threads.emplace_back([&] { own_host += read(*client, key) == page_origin::own_host; });
    for (auto& thread : threads)
      thread.join();
  };
  for (std::uint32_t i = 0; i < reads_until_mirrored(); ++i)
    all_read();
  for (int i = 0; i < 3; ++i) {
    all_read();
    EXPECT_EQ(own_host, readers);
  }
}

} // namespace peercache::real
