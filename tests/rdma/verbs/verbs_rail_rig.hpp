#pragma once

#include "common/slot_entry.hpp"
#include "rdma/tcp/tcp_protocol.hpp"
#include "rdma/verbs/verbs_rail_server.hpp"
#include "tests/rdma/raw_peer.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace peercache::rdma {

/// Memory with the alignment of a real pool, which begins `lead_bytes` after a huge page's begin.
/// The kernel provides memory only for the parts that tests touch.
class rail_pool {
public:
  static constexpr std::uint64_t lead_bytes = 4096;
  static constexpr std::uint32_t granules_in_mib = 256;

  explicit rail_pool(std::uint32_t mib)
      : granules_(mib * granules_in_mib),
        table_bytes_((granules_ * sizeof(slot_entry) + 4095) / 4096 * 4096),
        region_bytes_(table_bytes_ + (std::uint64_t{mib} << 20)),
        mapped_bytes_(region_bytes_ + 2 * chunk_plan::unit_bytes) {
    mapped_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(mapped_, MAP_FAILED);
    const auto at = reinterpret_cast<std::uintptr_t>(mapped_);
    const auto huge = (at + chunk_plan::unit_bytes - 1) / chunk_plan::unit_bytes;
    table_ = reinterpret_cast<std::byte*>(huge * chunk_plan::unit_bytes + lead_bytes);
  }
  ~rail_pool() { ::munmap(mapped_, mapped_bytes_); }
  rail_pool(const rail_pool&) = delete;
  rail_pool& operator=(const rail_pool&) = delete;

  std::span<std::byte> region() const { return {table_, region_bytes_}; }
  std::byte* pages() const { return table_ + table_bytes_; }
  served_region served() const { return {region(), pages(), granules_}; }

private:
  std::uint32_t granules_;
  std::uint64_t table_bytes_;
  std::uint64_t region_bytes_;
  std::size_t mapped_bytes_;
  void* mapped_ = nullptr;
  std::byte* table_ = nullptr;
};

inline verbs_server_options rail_options() {
  verbs_server_options options;
  options.cluster = "test";
  options.inc = {1, 1};
  options.node = "node-1";
  options.rail = 1;
  options.rails = 2;
  options.chunk_bytes = chunk_plan::unit_bytes;
  return options;
}

/// The reader's side of a verbs channel: a queue pair on a device, and the reader's end of the
/// control connection.
class rail_reader {
public:
  explicit rail_reader(verbs::device& on, const std::string& name = "reader")
      : completions(take(verbs::completion_queue::create(on, 16, nullptr))),
        pair(take(verbs::queue_pair::create(on, completions, verbs::queue_pair_use::reader, 8, 1))),
        memory(1 << 20), region(take(verbs::memory_region::register_memory(
                             on, memory, verbs::region_use::local_write))),
        peer(net::unique_fd{}) {
    greeting.cluster = cluster_digest("test");
    greeting.inc = {1, 1};
    greeting.reader = {5, 5};
    greeting.name = padded_name(name);
    const auto& port = on.port();
    greeting.end.gid = port.gid;
    greeting.end.queue_pair = pair.number();
    greeting.end.psn = verbs::random_psn();
    greeting.end.mtu_bytes = port.can.mtu_bytes;
    greeting.end.message_bytes = port.can.message_bytes;
    greeting.end.initiator_depth = port.can.initiator_depth;
    greeting.end.responder_depth = port.can.responder_depth;
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    peer = raw_peer(net::unique_fd(ends[0]));
    servers_end = net::unique_fd(ends[1]);
  }

  /// @param came_at when the connection was accepted; after the server's time: just now
  void come(verbs_rail_server& server, std::chrono::steady_clock::time_point came_at =
                                           std::chrono::steady_clock::time_point::max()) {
    server.accept(std::move(servers_end), greeting, came_at);
  }

  /// Receives the server's answer, and connects the queue pair to the one that the answer names.
  void connect() {
    const auto heard = peer.hear<verbs_answer>();
    ASSERT_TRUE(heard);
    answer = *heard;
    ASSERT_TRUE(well_formed(answer));
    verbs::path to;
    to.remote_queue_pair = answer.end.queue_pair;
    to.remote_psn = answer.end.psn;
    to.own_psn = greeting.end.psn;
    to.remote_gid = answer.end.gid;
    to.mtu_bytes = answer.end.mtu_bytes;
    to.initiator_depth = answer.end.responder_depth;
    to.responder_depth = answer.end.initiator_depth;
    const auto connected = pair.connect(to, {});
    ASSERT_TRUE(connected) << to_string(connected.error());
  }

  void take_chunks() {
    while (const auto chunk = peer.hear<region_chunk>()) {
      EXPECT_TRUE(within(*chunk, answer));
      chunks.push_back(*chunk);
    }
  }

  ibv_wc_status work(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t rkey,
                     std::uint32_t bytes) {
    ibv_sge piece{region.address(), bytes, region.local_key()};
    ibv_send_wr request{};
    request.sg_list = &piece;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = rkey;
    ibv_send_wr* first_bad = nullptr;
    EXPECT_EQ(pair.post(&request, &first_bad), 0);
    ibv_wc done{};
    EXPECT_EQ(completions.poll({&done, 1}), 1);
    return done.status;
  }

  /// READs the first bytes of a chunk. Returns the status of the completion.
  ibv_wc_status read(const region_chunk& chunk, std::uint32_t bytes = 4096) {
    return work(IBV_WR_RDMA_READ, chunk.address, chunk.rkey, bytes);
  }

  bool told_end() { return peer.receive(), peer.closed; }

  verbs::completion_queue completions;
  verbs::queue_pair pair;
  std::vector<std::byte> memory;
  verbs::memory_region region;
  raw_peer peer;
  net::unique_fd servers_end;
  verbs_hello greeting;
  verbs_answer answer;
  std::vector<region_chunk> chunks;

private:
  template <class T>
  static T take(result<T> made) {
    EXPECT_TRUE(made);
    return std::move(*made);
  }
};

/// A rail server and its readers in one thread, on a fabric that no other test uses.
class verbs_rail_rig : public testing::Test {
protected:
  verbs_rail_rig() {
    fabric.add(tests::roce_device("nic0", 1));
    fabric.add(tests::roce_device("nic1", 2));
    readers_device = open("nic1");
  }

  static std::unique_ptr<verbs::device> open(const std::string& name) {
    auto opened = verbs::device::open(name, {});
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }

  /// Starts the server of a pool of `mib` MiB, of which no chunk is registered yet.
  void serve(const verbs_server_options& options = rail_options(), std::uint32_t mib = 5) {
    pool = std::make_unique<rail_pool>(mib);
    auto made = verbs_rail_server::create(open("nic0"), options, pool->served());
    ASSERT_TRUE(made) << to_string(made.error());
    server = std::move(*made);
  }

  void register_all() {
    while (server->regions().register_next()) {
    }
  }

  /// Polls the server until it has nothing left to do.
  void settle() {
    while (server->poll(now)) {
    }
  }

  void pass(clock::duration time) {
    now += time;
    settle();
  }

  /// Lets time pass until the server publishes its statistics. Returns them.
  verbs_rail_stats stats() {
    pass(std::chrono::milliseconds(100));
    return server->stats();
  }

  std::vector<verbs_reader_stats> readers() {
    pass(std::chrono::milliseconds(100));
    return server->readers();
  }

  std::unique_ptr<rail_reader> new_reader(const std::string& name = "reader") {
    return std::make_unique<rail_reader>(*readers_device, name);
  }

  std::unique_ptr<rail_reader> established(const std::string& name = "reader",
                                           incarnation inc = {5, 5}) {
    auto made = new_reader(name);
    made->greeting.reader = inc;
    made->come(*server);
    settle();
    made->connect();
    made->peer.say(verbs_ready{});
    settle();
    made->take_chunks();
    return made;
  }

  /// Sends this reader's hello. Returns the verdict in the server's answer.
  verbs_verdict verdict_for(rail_reader& reader) {
    reader.come(*server);
    settle();
    const auto heard = reader.peer.hear<verbs_answer>();
    EXPECT_TRUE(heard);
    return heard ? heard->verdict : verbs_verdict::accepted;
  }

  /// Whether the server still has the queue pair that it named to the reader.
  bool served(const rail_reader& reader) const {
    return fabric.queue_pair(reader.answer.end.queue_pair).has_value();
  }
  /// Returns how many queue pairs were ever made on the server's device.
  std::uint64_t pairs_made() const { return fabric.counts("nic0").queue_pairs; }

  std::uint64_t ended(session_end why) { return stats().ended[static_cast<std::size_t>(why)]; }

  tests::fake_fabric fabric;
  std::unique_ptr<verbs::device> readers_device;
  std::unique_ptr<rail_pool> pool;
  std::unique_ptr<verbs_rail_server> server;
  clock::time_point now = clock::now();
};

} // namespace peercache::rdma
