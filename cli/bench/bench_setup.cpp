#include "cli/bench/bench_setup.hpp"

#include "cli/key_owners.hpp"
#include "cli/run_certificates.hpp"
#include "client/admin_client.hpp"
#include "common/assert.hpp"
#include "config/units.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

constexpr std::size_t store_batch = 32;
constexpr std::uint64_t disk_pools = 4; ///< Bytes of a disk tier per byte of a pool.

} // namespace

result<std::uint16_t> raw_server_port(child_process& server) {
  auto line = server.read_line(std::chrono::seconds(20));
  if (!line)
    return line.error();
  std::uint16_t port = 0;
  constexpr std::string_view head = "port=";
  if (line->starts_with(head))
    std::from_chars(line->data() + head.size(), line->data() + line->size(), port);
  if (port == 0)
    return {errc::incompatible, "the raw server said: " + *line};
  return port;
}

bool bench_options::wants(const std::string& name) const {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

result<std::unique_ptr<bench_setup>> bench_setup::make(const bench_options& options) {
  auto folder = run_folder::make("peercache-bench");
  if (!folder)
    return folder.error();
  auto own = bench::big_memory::map(options.memory_bytes, bench::big_memory::kind::anonymous);
  if (!own)
    return own.error();
  auto shared = bench::big_memory::map(options.memory_bytes, bench::big_memory::kind::shared);
  if (!shared)
    return shared.error();
  std::unique_ptr<bench_setup> setup(
      new bench_setup(options, std::move(*folder), std::move(*own), std::move(*shared)));
  if (auto started = setup->start(); !started) {
    setup->folder_.keep();
    return started.error();
  }
  return setup;
}

result<void> bench_setup::start() {
  local_cluster_options cluster{.count = 2, .folder = folder_.path()};
  cluster.prototype.program = node_program(options_.node_program);
  cluster.prototype.cluster = fmt::format("bench-{}", ::getpid());
  cluster.prototype.pool_bytes = options_.pool_bytes;
  // The measurements rely on finding the pages that were stored last, and LRU keeps those; other
  // policies may prefer older pages.
  cluster.prototype.flags = {"--pool-eviction", "lru", "--directory-replicas",
                             std::to_string(options_.directory_replicas)};
  if (!options_.disk_path.empty()) {
    disk_folder_ =
        std::filesystem::path(options_.disk_path) / fmt::format("peercache-bench-{}", ::getpid());
    cluster.prototype.flags.insert(cluster.prototype.flags.end(),
                                   {"--disk-path", disk_folder_.string(), "--disk-size",
                                    config::format_size(disk_pools * options_.pool_bytes)});
  }
  if (options_.tls != bench_tls::off) {
    auto files = make_run_certificates(folder_.path() / "tls", cluster.prototype.cluster);
    if (!files)
      return files.error();
    cluster.certificate_of = std::move(*files);
    const auto word = bench_tls_words[static_cast<std::size_t>(options_.tls)];
    cluster.prototype.flags.insert(cluster.prototype.flags.end(),
                                   {"--tls-data", std::string(word)});
  }
  auto nodes = start_local_cluster(cluster);
  if (!nodes)
    return nodes.error();
  nodes_ = std::move(*nodes);
  auto server =
      child_process::spawn({.arguments = {own_folder() + "/peercache", "raw-server", "--memory",
                                          std::to_string(options_.memory_bytes)}});
  if (!server)
    return server.error();
  auto port = raw_server_port(*server);
  if (!port)
    return port.error();
  raw_server_.push_back(std::move(*server));
  raw_port_ = *port;
  return {};
}

bench_setup::~bench_setup() {
  stop_nodes(nodes_, std::chrono::seconds(10));
  std::error_code kept; // Files that cannot be removed stay where the user has put them.
  if (!disk_folder_.empty())
    std::filesystem::remove_all(disk_folder_, kept);
}

result<std::unique_ptr<client::cache_client>>
bench_setup::connect(std::size_t node, client::client_options options) const {
  PEERCACHE_ASSERT(node < nodes_.size());
  options.node_port = nodes_[node].ports().control_port;
  options.cluster = nodes_[node].launch().cluster;
  options.tls = nodes_[node].launch().tls;
  options.timeout = std::chrono::seconds(10);
  return client::cache_client::connect(options);
}

void bench_setup::pin(pinning how) {
  if (!options_.pin || cpus_.size() < 2)
    return;
  bool apart = how == pinning::apart;
  auto ours = apart ? std::vector<int>{cpus_[0]} : cpus_;
  auto theirs = apart ? std::vector<int>{cpus_[1]} : cpus_;
  // Pinning is best effort: where the machine refuses it, the figures are still right.
  (void)pin_process(0, ours);
  for (auto& node : nodes_)
    (void)pin_process(node.process().pid(), theirs);
  for (auto& server : raw_server_)
    (void)pin_process(server.pid(), theirs);
}

void bench_setup::pin_with_nodes(pid_t pid) const {
  if (options_.pin && cpus_.size() >= 2)
    (void)pin_process(pid, {cpus_[1]}); // Best effort, as `pin` is.
}

std::vector<pid_t> bench_setup::callers_and_nodes() {
  std::vector<pid_t> all{::getpid()};
  for (auto& node : nodes_)
    all.push_back(node.process().pid());
  return all;
}

std::vector<pid_t> bench_setup::other_node() {
  return {nodes_[1].process().pid()};
}

std::vector<pid_t> bench_setup::callers_and_raw_server() {
  return {::getpid(), raw_server_.front().pid()};
}

std::vector<page_key> bench_setup::fresh_keys(std::size_t count) {
  key_space space;
  std::vector<page_key> keys;
  keys.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    keys.push_back(space.key_of("bench-" + std::to_string(keys_made_++)));
  return keys;
}

result<std::vector<page_key>> bench_setup::fresh_keys_of_other_host(std::size_t count) {
  PEERCACHE_ASSERT(options_.directory_replicas == 1);
  const auto& other = nodes_[1];
  auto admin = client::admin_client::connect(other.launch().host, other.ports().control_port,
                                             cluster(), std::chrono::seconds(10), tls(1));
  if (!admin)
    return admin.error();
  auto view = (*admin)->view();
  if (!view)
    return view.error();
  if (view->members.size() != nodes_.size())
    return {errc::unreachable, "the nodes have lost sight of each other"};
  const key_owners owners(*view, options_.directory_replicas);
  std::vector<page_key> keys;
  keys.reserve(count);
  while (keys.size() < count)
    if (const auto key = fresh_keys(1).front(); owners.names(key).front() == other.launch().name)
      keys.push_back(key);
  return keys;
}

page_walk::page_walk(std::span<std::byte> memory, std::size_t page_bytes, std::size_t count)
    : memory_(memory), page_bytes_(page_bytes), pages_(count) {
  PEERCACHE_ASSERT(count > 0 && page_bytes * count <= memory.size());
}

std::span<const std::span<std::byte>> page_walk::next() {
  if (position_ + page_bytes_ * pages_.size() > memory_.size())
    position_ = 0;
  for (auto& page : pages_) {
    page = memory_.subspan(position_, page_bytes_);
    position_ += page_bytes_;
  }
  return pages_;
}

result<void> all_are(std::span<const client::page_result> results, page_status wanted,
                     const char* what) {
  auto other = [&](const auto& page) { return page.status != wanted; };
  auto first = std::find_if(results.begin(), results.end(), other);
  if (first == results.end())
    return {};
  return {errc::refused,
          fmt::format("{}: {} of {} pages are not '{}', the first (number {}) is '{}'", what,
                      std::count_if(results.begin(), results.end(), other), results.size(),
                      to_string(wanted), first - results.begin(), to_string(first->status))};
}

result<void> store_pages(client::cache_client& client, std::span<const page_key> keys,
                         std::span<std::byte> memory, std::size_t page_bytes) {
  for (std::size_t first = 0; first < keys.size(); first += store_batch) {
    auto some = keys.subspan(first, std::min(store_batch, keys.size() - first));
    std::vector<client::const_part> parts;
    std::vector<client::set_page> pages;
    for (std::size_t i = 0; i < some.size(); ++i)
      parts.push_back({memory.data() + (first + i) * page_bytes % (memory.size() - page_bytes + 1),
                       static_cast<std::uint32_t>(page_bytes)});
    for (std::size_t i = 0; i < some.size(); ++i)
      pages.push_back({some[i], {&parts[i], 1}});
    std::vector<client::page_result> results(some.size());
    client.set(pages, results);
    if (auto stored = all_are(results, page_status::stored, "storing the pages to read"); !stored)
      return stored;
  }
  auto unpublished = client.flush();
  if (!unpublished)
    return unpublished.error();
  if (unpublished->failed != 0)
    return {errc::refused, fmt::format("{} pages were not published", unpublished->failed)};
  return {};
}

lookup_count::lookup_count(client::cache_client& client)
    : client_(client), before_(client.stats()) {}

result<void> lookup_count::note(bench_row& row) const {
  const auto now = client_.stats();
  row.directory_messages = now.directory_messages - before_.directory_messages;
  if (const auto own = now.lookups_own - before_.lookups_own; own > 0)
    return {errc::refused,
            fmt::format("{}: the client answered {} look-ups itself", row.name, own)};
  return {};
}

result<void> get_pages(client::cache_client& client, std::span<const page_key> keys,
                       std::span<const std::span<std::byte>> destinations) {
  PEERCACHE_ASSERT(keys.size() == destinations.size());
  // Parts, pages and results keep their memory between calls, as an engine's do, so that only the
  // cache is measured.
  thread_local std::vector<page_part> parts;
  thread_local std::vector<client::get_page> pages;
  thread_local std::vector<client::page_result> results;
  parts.clear();
  pages.clear();
  for (auto destination : destinations)
    parts.push_back({destination.data(), static_cast<std::uint32_t>(destination.size())});
  for (std::size_t i = 0; i < keys.size(); ++i)
    pages.push_back({keys[i], {&parts[i], 1}});
  results.assign(keys.size(), {});
  client.get(pages, results);
  return all_are(results, page_status::hit, "get");
}

} // namespace peercache::cli
