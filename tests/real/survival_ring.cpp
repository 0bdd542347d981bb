#include "survival_ring.hpp"

#include "storage/pool_memory.hpp"

#include <algorithm>
#include <unistd.h>

namespace peercache::real {

using metrics::metric;

void survival_ring::TearDown() {
  admins_.clear();
  spawned_.clear();
  local_ring::TearDown();
  if (plan_.keep_pools)
    storage::pool_memory::remove_leftovers({.name_prefix = pool_prefix()});
}

std::string survival_ring::pool_prefix() {
  return "kept-" + std::to_string(::getpid());
}

cli::node_launch survival_ring::launch_of(std::size_t index) const {
  cli::node_launch launch;
  launch.program = plan_.program;
  launch.environment = plan_.environment;
  launch.keep_pool = plan_.keep_pools;
  launch.name = "node-" + std::to_string(index + 1);
  launch.cluster = "survival-" + std::to_string(::getpid());
  launch.pool_bytes = plan_.pool_bytes;
  launch.folder = folder_->path() / launch.name;
  launch.flags = {"--discovery-heartbeat", std::to_string(plan_.heartbeat.count()) + "ms",
                  "--discovery-expiry", std::to_string(plan_.expiry.count()) + "ms"};
  launch.flags.insert(launch.flags.end(), plan_.flags.begin(), plan_.flags.end());
  if (plan_.keep_pools)
    launch.flags.insert(launch.flags.end(), {"--pool-name-prefix", pool_prefix()});
  if (plan_.disk)
    launch.flags.insert(launch.flags.end(),
                        {"--disk-path", (launch.folder / "disk").string(), "--disk-size", "128MiB",
                         "--disk-bucket-size", "1MiB"});
  if (lab_) {
    launch.host = net_lab::address(static_cast<std::uint32_t>(index));
    launch.network = lab_->network(static_cast<std::uint32_t>(index));
    launch.control_port = 31998;
  }
  return launch;
}

void survival_ring::start_ring(const plan& wanted) {
  plan_ = wanted;
  auto folder = cli::run_folder::make("peercache-survival");
  ASSERT_TRUE(folder) << folder.error().message;
  folder_ = std::make_unique<cli::run_folder>(std::move(*folder));
  if (wanted.own_hosts) {
    auto made = net_lab::make(wanted.count + wanted.spare_hosts);
    if (!made)
      GTEST_SKIP() << made.error().message;
    lab_.emplace(std::move(*made));
    lab_->enter_hub();
  }
  for (std::uint32_t i = 0; i < wanted.count; ++i) {
    auto launch = launch_of(i);
    if (i > 0)
      launch.seeds = {nodes_.front().address()};
    auto started = cli::node_process::start(launch);
    ASSERT_TRUE(started) << started.error().message;
    nodes_.push_back(std::move(*started));
  }
  std::vector<std::size_t> all(wanted.count);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = i;
  ASSERT_TRUE(within(milliseconds(20'000), [&] { return one_view(all); }));
}

void survival_ring::start_node(std::vector<std::string> seeds) {
  auto launch = launch_of(nodes_.size());
  launch.seeds = std::move(seeds);
  auto started = cli::node_process::start(launch);
  ASSERT_TRUE(started) << started.error().message;
  nodes_.push_back(std::move(*started));
}

void survival_ring::spawn_node(const cli::node_launch& launch) {
  std::filesystem::create_directories(launch.folder);
  auto child = cli::child_process::spawn({.arguments = cli::arguments_of(launch),
                                          .environment = launch.environment,
                                          .without_environment = "PEERCACHE_",
                                          .stderr_path = (launch.folder / "node.log").string(),
                                          .network = launch.network});
  ASSERT_TRUE(child) << child.error().message;
  spawned_.push_back(std::move(*child));
}

void survival_ring::spawn_again(std::size_t index, std::vector<std::string> seeds) {
  auto launch = launch_of(index);
  launch.seeds = seeds.empty() ? all_addresses() : std::move(seeds);
  const auto& ports = node(index).ports();
  launch.control_port = ports.control_port;
  launch.data_port = ports.data_port;
  launch.http_port = ports.http_port;
  spawn_node(launch);
}

std::vector<std::string> survival_ring::all_addresses() const {
  std::vector<std::string> all;
  for (const auto& each : nodes_)
    all.push_back(each.address());
  return all;
}

client::admin_client* survival_ring::admin_of(std::size_t index) {
  admins_.resize(std::max(admins_.size(), index + 1));
  auto& admin = admins_[index];
  if (!admin) {
    auto& node = nodes_[index];
    auto made = client::admin_client::connect(node.launch().host, node.ports().control_port,
                                              cluster(), patience);
    if (made)
      admin = std::move(*made);
  }
  return admin.get();
}

std::optional<discovery::view> survival_ring::view_of(std::size_t index) {
  auto* admin = admin_of(index);
  if (admin == nullptr)
    return std::nullopt;
  auto view = admin->view();
  if (view)
    return std::move(*view);
  admins_[index].reset();
  return std::nullopt;
}

std::optional<std::uint64_t> survival_ring::number_of(std::size_t index, metric which) {
  auto* admin = admin_of(index);
  if (admin == nullptr)
    return std::nullopt;
  const auto status = admin->status();
  if (status)
    return status->count(which);
  admins_[index].reset();
  return std::nullopt;
}

std::optional<discovery::view> survival_ring::wait_for_view(std::size_t index) {
  std::optional<discovery::view> view;
  EXPECT_TRUE(within(milliseconds(20'000), [&] { return (view = view_of(index)).has_value(); }))
      << "node " << index + 1 << " does not answer";
  return view;
}

void survival_ring::kill(std::size_t index) {
  admins_[index].reset();
  node(index).process().kill_now();
  const auto& ports = node(index).ports();
  for (const auto port : {ports.control_port, ports.data_port, ports.http_port})
    // A node with a host of its own shares its ports with nobody, and is not at an address of ours.
    if (auto held = net::hold_port(node(index).launch().host, port))
      held_ports_.push_back(std::move(*held));
}

bool survival_ring::has_other_view(std::size_t index,
                                   const std::optional<discovery::view>& before) {
  const auto now = view_of(index);
  return now && now != before;
}

bool survival_ring::is_ready(std::size_t index) {
  if (!view_of(index))
    return false;
  auto status = admins_[index]->status();
  return status && status->is(metric::ready);
}

bool survival_ring::one_view(const std::vector<std::size_t>& indices) {
  std::optional<discovery::view> first;
  for (auto index : indices) {
    auto view = view_of(index);
    if (!view || view->members.size() != indices.size() ||
        view->find_name(node(index).launch().name) == nullptr)
      return false;
    if (first && *first != *view)
      return false;
    first = std::move(view);
  }
  return std::all_of(indices.begin(), indices.end(), [&](std::size_t index) {
    return is_ready(index) && number_of(index, metric::links) == indices.size() - 1;
  });
}

bool survival_ring::sees(std::size_t index, std::size_t members) {
  auto view = view_of(index);
  return view && view->members.size() == members;
}

survival_ring::at_host::at_host(const survival_ring& ring, std::size_t index)
    : lab_(ring.lab_ ? &*ring.lab_ : nullptr) {
  if (lab_ != nullptr)
    lab_->enter(static_cast<std::uint32_t>(index));
}

survival_ring::at_host::~at_host() {
  if (lab_ != nullptr)
    lab_->enter_hub();
}

bool survival_ring::exchange(std::size_t from, std::size_t to, std::uint32_t id) {
  {
    auto scope = at(from);
    auto producer = client_of(from);
    if (!producer || put_one(*producer, id, 0) != page_status::stored)
      return false;
    auto unpublished = producer->flush(clock::now() + publish_patience);
    if (!unpublished || unpublished->failed != 0)
      return false;
  }
  auto scope = at(to);
  auto reader = client_of(to);
  if (!reader)
    return false;
  auto read = get(*reader, id);
  EXPECT_TRUE(read.result.status != page_status::hit || read.check.wrong_bytes == 0);
  return read.result.status == page_status::hit;
}

bool survival_ring::all_readable(client::cache_client& client, std::uint32_t first,
                                 std::uint32_t count) {
  for (auto id = first; id < first + count; ++id) {
    auto read = get(client, id);
    EXPECT_TRUE(read.result.status != page_status::hit || read.check.wrong_bytes == 0);
    if (read.result.status != page_status::hit)
      return false;
  }
  return true;
}

} // namespace peercache::real
