#include "local_ring.hpp"

#include <httplib.h>

namespace peercache::real {

namespace {

constexpr std::uint32_t readers = 16;
constexpr std::uint32_t big_page_bytes = 1u << 20;

/// A producer and sixteen other hosts that mirror all that they read.
class hot_key : public testing::Test {
protected:
  void SetUp() override {
    auto folder = cli::run_folder::make("peercache-hot");
    ASSERT_TRUE(folder) << folder.error().message;
    folder_ = std::make_unique<cli::run_folder>(std::move(*folder));
    cli::local_cluster_options options{.count = readers + 1, .folder = folder_->path()};
    options.prototype.program = PEERCACHE_CLI_DIR "/peercache-node";
    options.prototype.cluster = "hot-" + std::to_string(::getpid());
    options.prototype.pool_bytes = 32u << 20;
    options.prototype.flags = {"--pool-mirror", "all"};
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

  std::unique_ptr<cli::run_folder> folder_;
  std::vector<cli::node_process> nodes_;
};

} // namespace

TEST_F(hot_key, sixteen_readers_of_a_page_cost_its_producer_no_more_than_three) {
  static const key_space space;
  const auto key = space.key_of("hot");
  std::vector<std::byte> bytes(big_page_bytes);
  bench::fill_page(7, 0, bytes);
  auto producer = client_of(0);
  client::const_part part{bytes.data(), big_page_bytes};
  client::set_page page{key, {&part, 1}};
  client::page_result stored;
  producer->set({&page, 1}, {&stored, 1});
  ASSERT_EQ(stored.status, page_status::stored);
  ASSERT_TRUE(producer->flush());
  for (std::uint32_t reader = 1; reader <= readers; ++reader) {
    auto client = client_of(reader);
    std::vector<std::byte> read(big_page_bytes);
    rdma::page_part into{read.data(), big_page_bytes};
    client::get_page wanted{key, {&into, 1}};
    client::page_result result;
    client->get({&wanted, 1}, {&result, 1});
    EXPECT_EQ(to_string(result.status), to_string(page_status::hit)) << "reader " << reader;
    EXPECT_EQ(bench::check_page(7, read).wrong_bytes, 0u);
    ASSERT_TRUE(client->flush()); // Its copy is published, or is not taken.
  }
  // Each has read the page once, from somebody.
  ASSERT_TRUE(within(milliseconds(20'000), [&] {
    double all = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      all += bytes_sent(i);
    return all >= double{readers} * big_page_bytes;
  }));
  const auto sent = bytes_sent(0);
  std::printf("[ measured ] %u readers: the producer sent %.2f pages\n", readers,
              sent / big_page_bytes);
  EXPECT_LE(sent, 3.0 * big_page_bytes);
}

} // namespace peercache::real
