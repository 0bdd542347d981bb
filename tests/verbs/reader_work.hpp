#pragma once

#include "tests/rdma/verbs/verbs_rail_rig.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

namespace peercache::rdma {

/// The status of the next completion of a reader; nothing when none comes for a long time.
inline std::optional<ibv_wc_status> next_status(rail_reader& reader) {
  const auto until = clock::now() + std::chrono::seconds(30);
  ibv_wc done{};
  while (reader.completions.poll({&done, 1}) == 0) {
    if (clock::now() > until)
      return std::nullopt;
    std::this_thread::yield();
  }
  return done.status;
}

/// Lets a reader do this to the first bytes of a chunk over a real device, and waits for its end.
inline std::optional<ibv_wc_status> run(rail_reader& reader, ibv_wr_opcode opcode,
                                        const region_chunk& chunk, std::uint32_t bytes = 8) {
  ibv_sge piece{reader.region.address(), bytes, reader.region.local_key()};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic = {
        .remote_addr = chunk.address, .compare_add = 1, .swap = 1, .rkey = chunk.rkey};
  } else {
    request.wr.rdma.remote_addr = chunk.address;
    request.wr.rdma.rkey = chunk.rkey;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(reader.pair.post(&request, &bad), 0);
  return next_status(reader);
}

/// Turns a rail server of this thread until `holds`, for a long time at most.
inline void poll_until(verbs_rail_server& server, const std::function<bool()>& holds) {
  const auto until = clock::now() + std::chrono::seconds(30);
  while (!holds() && clock::now() < until)
    server.poll(clock::now());
}

/// Lets a reader come to a rail server of this thread, and hear of `chunks` chunks.
inline void establish(rail_reader& reader, verbs_rail_server& server, std::size_t chunks) {
  reader.come(server);
  poll_until(server, [&] {
    pollfd answered{reader.peer.fd.get(), POLLIN, 0};
    return ::poll(&answered, 1, 0) == 1;
  });
  reader.connect();
  reader.peer.say(verbs_ready{});
  poll_until(server, [&] {
    reader.take_chunks();
    return reader.chunks.size() >= chunks;
  });
}

} // namespace peercache::rdma
