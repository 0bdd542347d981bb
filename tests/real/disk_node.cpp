#include "disk_node.hpp"

#include <csignal>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace peercache::real {

using metrics::metric;

disk_node::disk_node(options wanted) : options_(std::move(wanted)) {
  auto folder = cli::run_folder::make("peercache-disk");
  EXPECT_TRUE(folder) << folder.error().message;
  folder_.emplace(std::move(*folder));
  if (options_.disk_path.empty())
    options_.disk_path = (folder_->path() / "disk").string();
  const bool may_die = !options_.environment.empty() &&
                       options_.environment[0].first == "PEERCACHE_TEST_DISK_KILL_POINT";
  EXPECT_TRUE(start(options_.environment) || may_die) << log();
}

disk_node::~disk_node() {
  if (testing::Test::HasFailure())
    folder_->keep();
  client_.reset();
  admin_.reset();
  if (node_)
    node_->stop(milliseconds(10'000));
}

bool disk_node::start(std::vector<std::pair<std::string, std::string>> environment) {
  client_.reset();
  admin_.reset();
  node_.reset();
  cli::node_launch launch;
  launch.program = PEERCACHE_NODE_SWITCHABLE;
  launch.name = "disk-node";
  launch.cluster = "disk-" + std::to_string(::getpid());
  launch.pool_bytes = options_.pool_bytes;
  launch.folder = folder_->path() / "node";
  launch.environment = std::move(environment);
  launch.flags = {
      "--disk-path",  options_.disk_path, "--disk-size",        std::to_string(options_.disk_bytes),
      "--disk-store", options_.store,     "--disk-bucket-size", "1MiB"};
  launch.flags.insert(launch.flags.end(), options_.flags.begin(), options_.flags.end());
  auto node = cli::node_process::start(launch);
  if (!node)
    return false;
  node_ = std::make_unique<cli::node_process>(std::move(*node));
  // Tries to connect for up to 15 s, because on a busy machine the node may not answer at once.
  return within(milliseconds(15'000), [&] { return connect() || !alive(); }) && client_ && admin_;
}

bool disk_node::connect() {
  const auto port = node_->ports().control_port;
  if (!client_) {
    client::client_options options;
    options.node_port = port;
    options.cluster = cluster();
    auto connected = client::cache_client::connect(options);
    if (!connected)
      return false;
    client_ = std::move(*connected);
  }
  auto admin = client::admin_client::connect("127.0.0.1", port, cluster(), milliseconds(2000));
  if (!admin)
    return false;
  admin_ = std::move(*admin);
  return true;
}

bool disk_node::bury(milliseconds at_most) {
  if (!node_)
    return true;
  const bool by_itself = node_->process().wait(at_most).has_value();
  if (!by_itself) {
    node_->process().signal(SIGKILL);
    node_->process().wait(milliseconds(10'000));
  }
  return by_itself;
}

std::optional<client::node_status> disk_node::status() {
  if (!admin_)
    return std::nullopt;
  auto now = admin_->status();
  return now ? std::optional(std::move(*now)) : std::nullopt;
}

void disk_node::verify_and_wait() {
  const auto begun = admin_->verify_disk();
  ASSERT_TRUE(begun) << begun.error().message;
  ASSERT_TRUE(within(milliseconds(60'000), [&] {
    const auto now = status();
    return now && !now->disk.verifying &&
           now->count(metric::disk_scrubbed_bytes_total) >= now->count(metric::disk_record_bytes);
  }));
}

bool disk_node::settled() {
  return within(milliseconds(60'000), [&] {
    if (!alive())
      return true;
    const auto now = status();
    return now && now->samples.value(metric::disk_scanned_ratio) >= 1 &&
           now->count(metric::disk_queue_bytes) == 0 && !now->disk.verifying;
  });
}

page_status disk_node::put(std::uint32_t id) {
  static const key_space space;
  std::vector<std::byte> bytes(page_bytes);
  bench::fill_page(id, 0, bytes);
  client::const_part part{bytes.data(), page_bytes};
  client::set_page page{space.key_of("disk-" + std::to_string(id)), {&part, 1}};
  client::page_result result;
  client_->set({&page, 1}, {&result, 1});
  return result.status;
}

void disk_node::put_to_disk(std::uint32_t first, std::uint32_t count) {
  const auto writes = status()->count(metric::disk_writes_total);
  // A quarter of the pool may wait for the disk; half of that is put at a time.
  const auto at_once = static_cast<std::uint32_t>(options_.pool_bytes / 8 / page_bytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(put(first + i), page_status::stored) << "page " << first + i;
    if (i % at_once != at_once - 1 && i + 1 != count)
      continue;
    ASSERT_TRUE(client().flush());
    // Waits for the count of written pages. An empty queue would prove nothing, because the node's
    // report may be a tenth of a second old.
    ASSERT_TRUE(within(milliseconds(60'000),
                       [&] {
                         const auto now = status();
                         return now && now->count(metric::disk_writes_total) > writes + i;
                       }))
        << "page " << first + i;
  }
}

std::uint32_t disk_node::count_hits(std::uint32_t first, std::uint32_t count) {
  std::uint32_t hits = 0;
  for (auto id = first; id < first + count; ++id) {
    const auto read = get(id);
    if (read.result.status != page_status::hit)
      continue;
    ++hits;
    EXPECT_EQ(read.wrong_bytes, 0u) << "page " << id;
  }
  return hits;
}

std::string disk_node::log() const {
  std::ifstream file(folder_->path() / "node" / "node.log");
  return {std::istreambuf_iterator<char>(file), {}};
}

disk_node::read_page disk_node::get(std::uint32_t id, milliseconds deadline) {
  static const key_space space;
  std::vector<std::byte> bytes(page_bytes, std::byte{0xa5});
  page_part part{bytes.data(), page_bytes};
  client::get_page page{space.key_of("disk-" + std::to_string(id)), {&part, 1}};
  read_page read;
  const auto begin = clock::now();
  client_->get({&page, 1}, {&read.result, 1}, begin + deadline);
  read.took = clock::now() - begin;
  read.wrong_bytes = bench::check_page(id, bytes).wrong_bytes;
  return read;
}

} // namespace peercache::real
