// Measures a look-up of 128 keys on 100 and on 1,000 nodes, over TCP and by datagram.
//
// The nodes' look-up ports are simulated by one other process on loopback, so the time of the call
// contains what that one process takes for the answers of all. Printed apart: the CPU time of the
// thread that asks, which on loopback does the receiver's part of the kernel's work too, and that
// of the process that answers. Beside them, as a limit of this machine: as many bare `send`s and
// `recv`s of one frame, on as many connections to a process that answers at once. With `--check`
// the program fails when a look-up over TCP takes more than `ratio_max` of their time, or when
// asking by datagram costs the thread more than `datagram_ratio_max` of what TCP costs.

#include "client/calls/client_impl.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"
#include "tests/real/fanout/raw_connections.hpp"
#include "tests/real/fanout/simulated_peers.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace peercache {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr std::size_t keys_per_batch = 128;
constexpr std::size_t batches = 32;
constexpr int rounds = 9;
constexpr int calls_per_round = 100;
constexpr double ratio_max = 2;
constexpr double datagram_ratio_max = 0.6;

double thread_cpu_us() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

/// A client that knows the simulated nodes, without a node of its own.
class asking_client {
public:
  asking_client(const simulated_peers& peers, bool by_datagram) : cluster_(topology_of(peers)) {
    client::client_options options;
    options.cluster = "fanout";
    options.node_port = net::local_port(nobody_);
    options.location_cache_keys = 0;
    options.lookup_datagrams = by_datagram;
    auto plane = client::read_plane::create(options);
    PEERCACHE_ASSERT(bool(plane));
    body_ = std::make_unique<client::client_impl>(options, std::move(*plane), nullptr);
    body_->session.board().set_topology(cluster_);
    for (const auto& member : cluster_->view.members)
      body_->session.members().open(member);
    while (by_datagram && !knows_all())
      std::this_thread::sleep_for(1ms);
  }

  void look_up(std::span<const page_key> keys) {
    std::vector<client::lookup_answer> answers(keys.size());
    body_->look_up(keys, answers, steady_clock::now() + 2s, {});
    for (const auto& each : answers)
      missed_ += each.status == page_status::hit ? 0 : 1;
  }
  const client::counters& totals() const { return body_->totals; }
  std::size_t missed() const noexcept { return missed_; }

private:
  static link::topology_ptr topology_of(const simulated_peers& peers) {
    auto made = std::make_shared<link::topology>();
    made->view.term = 1;
    made->view.version = 1;
    for (std::size_t i = 0; i < peers.ports().size(); ++i) {
      auto& member = made->view.members.emplace_back();
      member.id = simulated_peers::id_of(i);
      member.inc = simulated_peers::inc_of(i);
      member.name = "peer" + std::to_string(i);
      member.host = "127.0.0.1";
      member.lookup_port = peers.ports()[i];
    }
    std::ranges::sort(made->view.members, {}, &discovery::member::id);
    for (const auto& member : made->view.members) {
      auto& peer = made->peers.emplace_back();
      peer.self = member;
      peer.lookup_port = member.lookup_port;
      peer.reached = true;
    }
    made->ring = discovery::hash_ring{made->view.members};
    return made;
  }
  bool knows_all() {
    auto& known = body_->session.members().datagrams();
    return std::ranges::all_of(cluster_->view.members, [&](const auto& member) {
      return known.find(member.inc, steady_clock::now()) != nullptr;
    });
  }

  net::unique_fd nobody_ = *net::hold_port("127.0.0.1", 0);
  const link::topology_ptr cluster_;
  std::unique_ptr<client::client_impl> body_;
  std::size_t missed_ = 0;
};

/// Medians over the rounds, for one call.
struct cost {
  double wall_us = 0, cpu_us = 0, peers_us = 0;
};

double median(std::vector<double> all) {
  std::ranges::sort(all);
  return all[all.size() / 2];
}

/// The costs of the rounds of one way to ask.
class measured_rounds {
public:
  /// Measures `calls` calls of `once(call)`.
  template <class Once>
  void run(int calls, Once&& once, const simulated_peers* peers = nullptr) {
    const auto begin = steady_clock::now();
    const auto cpu = thread_cpu_us();
    const auto peers_cpu = peers ? peers->cpu_us() : 0;
    for (int call = 0; call < calls; ++call)
      once(call);
    wall_.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count() /
                    calls);
    cpu_.push_back((thread_cpu_us() - cpu) / calls);
    peers_cpu_.push_back(peers ? (peers->cpu_us() - peers_cpu) / calls : 0);
  }
  void forget() { *this = {}; }
  cost medians() const { return {median(wall_), median(cpu_), median(peers_cpu_)}; }

private:
  std::vector<double> wall_, cpu_, peers_cpu_;
};

/// A client's look-ups of one batch after another.
class client_rounds {
public:
  client_rounds(const simulated_peers& peers, bool by_datagram)
      : peers_(peers), client_(peers, by_datagram) {}

  void run(std::span<const page_key> keys, int calls) {
    const auto look_up = [&](int call) {
      client_.look_up(
          keys.subspan(static_cast<std::size_t>(call) % batches * keys_per_batch, keys_per_batch));
    };
    rounds_.run(calls, look_up, &peers_);
  }
  void forget() { rounds_.forget(); }
  cost medians() const { return rounds_.medians(); }
  const asking_client& client() const { return client_; }

private:
  const simulated_peers& peers_;
  asking_client client_;
  measured_rounds rounds_;
};

void print(const char* means, std::size_t nodes, const cost& is, const client::counters& totals) {
  std::printf("%5zu nodes %-9s: %6.0f us a call, %6.0f us of the thread that asks, %6.0f us of the "
              "process that answers; %llu messages, %llu datagrams, %llu of them again over TCP\n",
              nodes, means, is.wall_us, is.cpu_us, is.peers_us,
              static_cast<unsigned long long>(totals.directory_messages),
              static_cast<unsigned long long>(totals.datagrams_sent),
              static_cast<unsigned long long>(totals.datagrams_over_tcp));
}

/// Measures and prints. Returns whether the ratios are within their bounds.
bool measure(std::size_t nodes) {
  raw_connections raw(nodes);
  simulated_peers peers(nodes);
  client_rounds tcp(peers, false), udp(peers, true);
  measured_rounds bare;
  std::vector<page_key> keys;
  for (std::size_t i = 0; i < batches * keys_per_batch; ++i)
    keys.push_back(key_space{}.key_of(std::to_string(i)));
  for (auto* each : {&tcp, &udp}) {
    each->run(keys, static_cast<int>(batches)); // Connects.
    each->forget();
  }
  const auto messages = static_cast<std::size_t>(
      std::lround(static_cast<double>(tcp.client().totals().directory_messages) / batches));
  for (int round = 0; round < rounds; ++round) {
    for (auto* each : {&tcp, &udp})
      each->run(keys, calls_per_round);
    bare.run(calls_per_round, [&](int) { raw.ask(messages); });
  }
  PEERCACHE_ASSERT(tcp.client().missed() == 0 && udp.client().missed() == 0);
  print("tcp", nodes, tcp.medians(), tcp.client().totals());
  print("datagrams", nodes, udp.medians(), udp.client().totals());
  const auto [raw_us, raw_cpu_us, unknown] = bare.medians();
  const auto ratio = tcp.medians().wall_us / raw_us;
  std::printf("%5zu nodes raw      : %6.0f us for %zu questions, %6.0f us of the thread that asks; "
              "over TCP %.2f of the time and %.2f of the thread, by datagram %.2f and %.2f\n",
              nodes, raw_us, messages, raw_cpu_us, ratio, tcp.medians().cpu_us / raw_cpu_us,
              udp.medians().wall_us / raw_us, udp.medians().cpu_us / raw_cpu_us);
  return ratio <= ratio_max && udp.medians().cpu_us <= datagram_ratio_max * tcp.medians().cpu_us;
}

int run(bool check) {
  // The processes that answer are forked before this one has threads: one measurement each.
  for (const std::size_t nodes : {100u, 1000u}) {
    const auto child = ::fork();
    if (child == 0) {
      const bool within = measure(nodes);
      std::fflush(stdout);
      ::_exit(check && !within ? 1 : 0);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0)
      return 1;
  }
  return 0;
}

} // namespace
} // namespace peercache

int main(int argc, char** argv) {
  peercache::init_log("many_owners", "error", false);
  return peercache::run(argc > 1 && std::string_view(argv[1]) == "--check");
}
