#pragma once

#include "rdma/verbs/verbs_protocol.hpp"

#include <array>
#include <cstring>

/// Right messages of the verbs handshake, which tests damage.
namespace peercache::rdma::verbs_messages {

inline constexpr incarnation life{7, 9};
inline constexpr std::uint64_t cluster = 0x1122334455667788;
inline constexpr std::uint8_t ethernet = 0, infiniband = 1;

inline queue_pair_end good_end() {
  queue_pair_end end;
  end.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  end.queue_pair = 0x010203;
  end.psn = 0x0a0b0c;
  end.mtu_bytes = 4096;
  end.message_bytes = 8u << 20;
  end.initiator_depth = 16;
  end.responder_depth = 16;
  return end;
}

inline verbs_hello good_hello() {
  verbs_hello say;
  say.cluster = cluster;
  say.inc = life;
  say.reader = {3, 4};
  say.end = good_end();
  say.name = padded_name("node-2/rank-0");
  return say;
}

inline verbs_answer good_answer() {
  verbs_answer answer;
  answer.inc = life;
  answer.end = good_end();
  answer.table_address = 0x7f0000001000;
  answer.granules = 1024;
  answer.pages_address = answer.table_address + 0x20000;
  answer.region_bytes = 0x20000 + 1024 * 4096;
  answer.chunks = 3;
  answer.rails = 2;
  answer.rail = 1;
  return answer;
}

inline region_chunk good_chunk() {
  region_chunk chunk;
  chunk.index = 2;
  chunk.address = good_answer().table_address + 4096;
  chunk.bytes = 1u << 20;
  chunk.rkey = 77;
  return chunk;
}

/// Returns a chunk of an area right behind the pool.
inline region_chunk good_area() {
  auto chunk = good_chunk();
  chunk.kind = chunk_kind::area;
  chunk.index = 0;
  chunk.address = good_answer().table_address + good_answer().region_bytes;
  return chunk;
}

inline verbs_verdict verdict_of(const verbs_hello& say) {
  return judge(say, cluster, life, ethernet, data_service::pool);
}

template <class T>
std::array<std::uint8_t, sizeof(T)> bytes_of(const T& value) {
  std::array<std::uint8_t, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

} // namespace peercache::rdma::verbs_messages
