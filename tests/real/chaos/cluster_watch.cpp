#include "cluster_watch.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::chaos {

namespace {

constexpr std::chrono::milliseconds between_rounds{50};
constexpr std::chrono::milliseconds patience{300};

using metrics::metric;

std::uint64_t records_of_nobody(const client::node_status& status) {
  auto left = status.count(metric::directory_records);
  for (const auto& [node, records] : status.directory.records_of)
    left -= records;
  return left;
}

} // namespace

cluster_watch::cluster_watch(const chaos_cluster& cluster, tests::history* record)
    : cluster_(cluster), record_(record), expected_(cluster.hosts()), admins_(cluster.hosts()),
      seen_(cluster.hosts()), thread_([this] { run(); }) {}

cluster_watch::~cluster_watch() {
  stop_ = true;
  thread_.join();
}

void cluster_watch::run() {
  cluster_.net().enter_hub();
  while (!stop_) {
    for (std::uint32_t host = 0; host < expected_.size(); ++host)
      ask(host);
    std::this_thread::sleep_for(between_rounds);
  }
}

void cluster_watch::ask(std::uint32_t host) {
  auto& admin = admins_[host];
  if (expected_[host] && !admin)
    if (auto made =
            client::admin_client::connect(real::net_lab::address(host), chaos_cluster::control_port,
                                          cluster_.cluster_name(), patience, cluster_.client_tls()))
      admin = std::move(*made);
  if (expected_[host] && admin) {
    auto asked_at = std::chrono::steady_clock::now();
    auto status = admin->status();
    auto view = admin->view();
    if (status && view)
      return note(host, asked_at, *status, std::move(*view));
  }
  admin.reset();
  std::lock_guard guard(lock_);
  seen_[host].answers = false;
}

void cluster_watch::note(std::uint32_t host, std::chrono::steady_clock::time_point asked_at,
                         const client::node_status& status, discovery::view view) {
  std::lock_guard guard(lock_);
  auto& seen = seen_[host];
  if (record_ != nullptr && (seen.inc != status.self.inc || seen.view.stamp() != view.stamp()))
    record_->view(asked_at, to_string(status.self.inc), view);
  if (seen.inc != status.self.inc) {
    former_puts_ += seen.puts;
    former_evictions_ += seen.evictions;
  } else if (view.stamp() < seen.view.stamp()) {
    regressions_ += 1;
  }
  seen = {true,
          asked_at,
          status.is(metric::ready),
          status.self.inc,
          std::move(view),
          status.count(metric::pool_puts_total),
          status.count(metric::evictions_total),
          records_of_nobody(status)};
}

seen_node cluster_watch::latest(std::uint32_t host) const {
  std::lock_guard guard(lock_);
  return seen_[host];
}

bool cluster_watch::one_view(const std::vector<std::uint32_t>& hosts,
                             std::chrono::steady_clock::time_point since) const {
  std::lock_guard guard(lock_);
  const auto& first = seen_[hosts.front()].view;
  return std::all_of(hosts.begin(), hosts.end(), [&](std::uint32_t host) {
    const auto& seen = seen_[host];
    return seen.answers && seen.asked_at > since && seen.ready && seen.view == first &&
           first.members.size() == hosts.size() && first.find(seen.inc) != nullptr;
  });
}

std::string cluster_watch::views(const std::vector<std::uint32_t>& hosts) const {
  std::lock_guard guard(lock_);
  std::string text;
  for (auto host : hosts) {
    const auto& seen = seen_[host];
    text += fmt::format("{}{}: {}, view {}.{} with {} members", text.empty() ? "" : "; ",
                        cluster_.node_name(host),
                        !seen.answers ? "does not answer"
                        : seen.ready  ? "ready"
                                      : "unready",
                        seen.view.term, seen.view.version, seen.view.members.size());
  }
  return text;
}

std::uint64_t cluster_watch::puts() const {
  std::lock_guard guard(lock_);
  auto sum = former_puts_;
  for (const auto& seen : seen_)
    sum += seen.puts;
  return sum;
}

std::uint64_t cluster_watch::evictions() const {
  std::lock_guard guard(lock_);
  auto sum = former_evictions_;
  for (const auto& seen : seen_)
    sum += seen.evictions;
  return sum;
}

} // namespace peercache::chaos
