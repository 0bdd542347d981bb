#pragma once

#include "discovery/packet_codec.hpp"
#include "foreign_program.hpp"
#include "net/socket.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <functional>
#include <httplib.h>
#include <iterator>
#include <map>
#include <netinet/in.h>
#include <sstream>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace peercache::real {

using sockets = std::vector<net::unique_fd>; ///< Connections of hostile programs.

/// A client that gets pages over and over, in a thread of its own.
class good_client {
public:
  struct tally {
    std::uint64_t gets = 0, hits = 0, wrong = 0, late = 0;
    std::map<std::string, std::uint64_t> misses; ///< Number of misses by reason.
  };

  using round = std::function<void(std::uint32_t, tally&)>;
  explicit good_client(round one)
      : thread_([this, one = std::move(one)] {
          // At least `gets_min` gets are made, so that the share of hits is that of many gets,
          // however short the attack is.
          for (std::uint32_t i = 0; i < gets_min || !done_.load(); ++i)
            one(i, tally_);
        }) {}
  /// Ends the client's thread and returns its tally.
  tally stop() {
    done_ = true;
    thread_.join();
    return tally_;
  }

private:
  static constexpr std::uint32_t gets_min = 500;

  std::atomic<bool> done_{false};
  tally tally_;
  std::thread thread_; ///< Declared last, so that it starts after all members that it uses.
};

/// Three nodes, a well-behaved client that works all the time, and tools of a hostile program. Each
/// test makes one kind of attack; at its end, client and nodes must be unhurt.
class attack : public foreign_program {
protected:
  void SetUp() override {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    foreign_program::SetUp();
    if (HasFatalFailure())
      return;
    owner_ = client_of(0, milliseconds(10'000));
    reader_ = client_of(2, milliseconds(1000));
    ASSERT_TRUE(owner_ && reader_);
    put(*owner_, 0, pages);
    ASSERT_TRUE(within(milliseconds(10'000),
                       [this] { return count_existing(*reader_, 0, pages) == pages; }));
    // Reads each page once, so that connections which are made at first use exist before the
    // attack.
    for (std::uint32_t id = 0; id < pages; ++id)
      ASSERT_EQ(get(*reader_, id).result.status, page_status::hit);
    good_.emplace([this](std::uint32_t i, good_client::tally& sum) { get_one(i % pages, sum); });
  }

  void TearDown() override {
    if (good_)
      expect_unhurt();
    owner_.reset();
    reader_.reset();
    foreign_program::TearDown();
  }

  /// As a client of another host: asks the directory for a page of the node under attack, and gets
  /// the page.
  void get_one(std::uint32_t id, good_client::tally& sum) {
    ++sum.gets;
    sum.hits += count_existing(*reader_, id, 1);
    const auto read = get(*reader_, id, milliseconds(1000));
    const bool hit = read.result.status == page_status::hit;
    ++sum.gets;
    sum.hits += hit;
    sum.wrong += hit && read.check.wrong_bytes != 0;
    sum.late += !took_at_most(milliseconds(1050), read);
    if (!hit)
      ++sum.misses[std::string(to_string(read.result.status))];
  }

  void expect_unhurt() {
    const auto sum = good_->stop();
    good_.reset();
    EXPECT_EQ(sum.wrong, 0u);
    EXPECT_EQ(sum.late, 0u);
    EXPECT_GE(static_cast<double>(sum.hits), 0.99 * static_cast<double>(sum.gets))
        << sum.hits << " of " << sum.gets << ", misses: " << testing::PrintToString(sum.misses);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(node(i).process().wait(milliseconds(0)), std::nullopt) << "node " << i << " ended";
      httplib::Client http{"127.0.0.1", node(i).ports().http_port};
      const auto answer = http.Get("/readyz");
      EXPECT_TRUE(answer && answer->status == 200) << "node " << i;
      if (i > 0) {
        EXPECT_EQ(refusals_told_by(i), 0u) << "a node refuses what others of ours have said";
      }
    }
  }
  /// Number of lines in node `i`'s log that say that it ended a connection because of a forged
  /// message.
  std::size_t refusals_told_by(std::size_t i) {
    std::ifstream file(node(i).launch().folder / "node.log");
    std::size_t lines = 0;
    for (std::string line; std::getline(file, line);)
      lines += line.find("whose message no process of ours sends") != std::string::npos;
    return lines;
  }

  static net::unique_fd connect_to(std::uint16_t port) {
    net::unique_fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    return fd;
  }
  sockets connect_many(std::uint16_t port, std::size_t count) {
    sockets all;
    for (std::size_t i = 0; i < count; ++i)
      all.push_back(connect_to(port));
    return all;
  }
  static void say(const net::unique_fd& to, std::string_view bytes) {
    ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  static bool is_closed(const net::unique_fd& fd) {
    for (char bytes[4096];;)
      if (const auto got = ::recv(fd.get(), bytes, sizeof bytes, MSG_DONTWAIT); got <= 0)
        return got == 0 || errno != EAGAIN;
  }
  void expect_cut_off(const sockets& all) {
    EXPECT_TRUE(within(milliseconds(10'000), [&] { return std::ranges::all_of(all, is_closed); }))
        << std::ranges::count_if(all, is_closed) << " of " << all.size() << " are closed";
  }

  std::uint16_t control_port() { return node(0).ports().control_port; }
  std::uint16_t data_port() { return node(0).ports().data_port; }
  std::uint16_t http_port() { return node(0).ports().http_port; }
  std::uint16_t lookup_port() {
    const auto welcome = ask<peer_welcome>(gateways_.front(), hello_atom_v, wire_version, cluster(),
                                           std::string{"me"});
    EXPECT_TRUE(welcome);
    return welcome ? welcome->lookup_port : std::uint16_t{0};
  }
  std::vector<std::uint16_t> all_ports() {
    return {control_port(), lookup_port(), data_port(), http_port()};
  }

  std::uint64_t rss_kib() {
    std::ifstream file("/proc/" + std::to_string(node(0).process().pid()) + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("VmRSS:"))
        return std::stoull(line.substr(6));
    return 0;
  }
  /// Processor time that the first node's process has used so far, in clock ticks.
  std::uint64_t cpu_ticks() {
    std::ifstream file("/proc/" + std::to_string(node(0).process().pid()) + "/stat");
    std::string stat{std::istreambuf_iterator<char>(file), {}};
    std::istringstream fields(stat.substr(stat.rfind(')') + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i)
      fields >> skipped;
    std::uint64_t user = 0, system = 0;
    fields >> user >> system;
    return user + system;
  }

  void forge(const membership_actor& whom, const discovery::packet& said) {
    caf::anon_send(whom, packet_atom_v, discovery::encode_packet(said, cluster()));
  }
  membership_actor membership_of(std::size_t i) {
    const auto welcome =
        ask<peer_welcome>(gateways_[i], hello_atom_v, wire_version, cluster(), std::string{"me"});
    EXPECT_TRUE(welcome);
    return welcome->membership;
  }
  discovery::view current_view() {
    const auto encoded = ask<std::string>(gateways_.front(), view_atom_v);
    auto view = discovery::decode_view(encoded.value_or(""));
    EXPECT_TRUE(view);
    return *view;
  }

  static constexpr std::uint32_t pages = 300; ///< Pages in the pool of the node under attack.
  std::unique_ptr<client::cache_client> owner_, reader_;
  std::optional<good_client> good_;
};

} // namespace peercache::real
