#pragma once

#include "rdma/verbs/completion_queue.hpp"
#include "rdma/verbs/device.hpp"
#include "rdma/verbs/memory_region.hpp"
#include "rdma/verbs/queue_pair.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace peercache::rdma::verbs {

using std::chrono::steady_clock;
using buffer = std::vector<std::byte>;

/// Returns pseudo-random bytes: pieces at two places, or of two seeds, always differ.
inline buffer random_bytes(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  buffer made((bytes + 7) / 8 * 8);
  for (std::size_t at = 0; at < made.size(); at += 8) {
    auto word = random();
    std::memcpy(&made[at], &word, 8);
  }
  made.resize(bytes);
  return made;
}

/// Returns the value of a result that must be good on every machine with these devices; throws if
/// it is an error, which fails the test.
template <class T>
T must(result<T> made) {
  if (!made)
    throw std::runtime_error(to_string(made.error()));
  return std::move(*made);
}
inline void must(result<void> done) {
  if (!done)
    throw std::runtime_error(to_string(done.error()));
}

/// One end of a connection: a queue pair with a completion queue of its own.
struct rail_end {
  static constexpr std::uint32_t send_depth = 64;
  static constexpr std::uint32_t sge = 30;

  rail_end(const device& on, queue_pair_use use, completion_channel* channel = nullptr)
      : completions(must(completion_queue::create(on, send_depth, channel))),
        pair(must(queue_pair::create(on, completions, use, send_depth, sge))) {}

  completion_queue completions;
  queue_pair pair;
  std::uint32_t psn = random_psn();
};

/// The queue pair of a reader on one device, connected to the queue pair of a server on another
/// device. A READ may take up to 10 s, because the machine may be busy.
struct rail_pair {
  rail_pair(const device& reads_on, const device& serves_on, const path_options& options = {},
            completion_channel* reader_channel = nullptr)
      : reader(reads_on, queue_pair_use::reader, reader_channel),
        server(serves_on, queue_pair_use::server) {
    const auto& a = reads_on.port();
    const auto& b = serves_on.port();
    auto depth = std::min(a.can.initiator_depth, b.can.responder_depth);
    path to_server{.remote_queue_pair = server.pair.number(),
                   .remote_psn = server.psn,
                   .own_psn = reader.psn,
                   .remote_gid = b.gid,
                   .remote_lid = b.lid,
                   .mtu_bytes = std::min(a.can.mtu_bytes, b.can.mtu_bytes),
                   .initiator_depth = depth,
                   .responder_depth = 0};
    path to_reader{.remote_queue_pair = reader.pair.number(),
                   .remote_psn = reader.psn,
                   .own_psn = server.psn,
                   .remote_gid = a.gid,
                   .remote_lid = a.lid,
                   .mtu_bytes = to_server.mtu_bytes,
                   .initiator_depth = 0,
                   .responder_depth = depth};
    must(server.pair.connect(to_reader, options));
    must(reader.pair.connect(to_server, options));
  }

  /// Posts a signalled work request over all of `local`.
  void post(ibv_wr_opcode what, std::span<const ibv_sge> local, std::uint64_t address,
            std::uint32_t key) {
    std::vector<ibv_sge> pieces(local.begin(), local.end());
    ibv_send_wr request{};
    request.sg_list = pieces.data();
    request.num_sge = static_cast<int>(pieces.size());
    request.opcode = what;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
    if (what == IBV_WR_ATOMIC_FETCH_AND_ADD || what == IBV_WR_ATOMIC_CMP_AND_SWP) {
      request.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 1, .rkey = key};
    }
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(reader.pair.post(&request, &bad), 0);
  }

  /// Waits for the next completion. Returns its status; nothing when none comes within `at_most`.
  std::optional<ibv_wc_status> next_status(std::chrono::milliseconds at_most) {
    auto until = steady_clock::now() + at_most;
    ibv_wc done{};
    while (steady_clock::now() < until) {
      if (int number = reader.completions.poll({&done, 1}); number != 0)
        return number > 0 ? std::optional(done.status) : std::nullopt;
      // Gives way, because a processor of this machine does the device's work.
      std::this_thread::yield();
    }
    return std::nullopt;
  }

  std::optional<ibv_wc_status> run(ibv_wr_opcode what, std::span<const ibv_sge> local,
                                   std::uint64_t address, std::uint32_t key,
                                   std::chrono::milliseconds at_most = std::chrono::seconds(10)) {
    post(what, local, address, key);
    return next_status(at_most);
  }

  rail_end reader;
  rail_end server;
};

inline ibv_sge piece_of(const memory_region& region, std::span<std::byte> bytes) {
  return {.addr = reinterpret_cast<std::uint64_t>(bytes.data()),
          .length = static_cast<std::uint32_t>(bytes.size()),
          .lkey = region.local_key()};
}

} // namespace peercache::rdma::verbs
