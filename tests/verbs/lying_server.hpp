#pragma once

#include "tests/rdma/raw_peer.hpp"
#include "tests/verbs/rail_pair.hpp"
#include "tests/verbs/whole_path.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <list>

namespace peercache::rdma {

/// What a peer with a working control connection lies about.
enum class lie : std::uint8_t {
  none,
  wrong_key,      ///< The announced key belongs to no memory region.
  region_gone,    ///< The announced key belongs to a region that was deregistered.
  past_the_end,   ///< The announced key belongs to a region that ends after the first page.
  queue_pair_gone ///< The peer destroys its queue pair before the first READ.
};

/// A server that follows the protocol except for one lie. Runs in a thread of its own, on device
/// rxe1.
class lying_server {
public:
  lying_server(const readable_pool& pool, std::size_t first_page_bytes, const incarnation& inc)
      : pool_(pool.served()), inc_(inc), device_(verbs::must(verbs::device::open("rxe1", {}))),
        completions_(verbs::must(verbs::completion_queue::create(*device_, 1, nullptr))),
        region_(registered_for_reads(pool_.region)),
        short_region_(registered_for_reads(pool_.region.first(
            static_cast<std::size_t>(pool_.pages - pool_.region.data()) + first_page_bytes))),
        listener_(verbs::must(net::listen_on("127.0.0.1", 0, 8))) {
    auto gone = registered_for_reads(pool_.region);
    key_of_old_ = gone.remote_key();
    gone.reset();
    thread_ = std::thread([this] { run(); });
  }
  ~lying_server() {
    stop_ = true;
    thread_.join();
    device_->own();
  }
  lying_server(const lying_server&) = delete;
  lying_server& operator=(const lying_server&) = delete;

  peer_endpoint endpoint() const {
    return {{1}, inc_, "127.0.0.1", net::local_port(listener_), "test", 1};
  }

  std::atomic<lie> tells{lie::none}; ///< The lie that is told on later connections.

private:
  struct session {
    net::unique_fd control;
    verbs::queue_pair pair;
  };

  verbs::memory_region registered_for_reads(std::span<std::byte> memory) {
    return verbs::must(
        verbs::memory_region::register_memory(*device_, memory, verbs::region_use::remote_read));
  }

  void run() {
    device_->own();
    while (!stop_) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 20) == 1)
        serve(net::accept_from(listener_, {}));
    }
    sessions_.clear();
  }

  void serve(net::unique_fd control) {
    verbs_hello greeting;
    pollfd waiting{control.get(), POLLIN, 0};
    if (::poll(&waiting, 1, 5000) != 1 ||
        ::recv(control.get(), &greeting, sizeof greeting, MSG_WAITALL) != sizeof greeting)
      return;
    auto pair = verbs::must(
        verbs::queue_pair::create(*device_, completions_, verbs::queue_pair_use::server, 1, 1));
    auto answer = answer_to(greeting, pair);
    verbs::must(pair.connect(path_to(greeting.end, answer.end), {}));
    if (tells == lie::queue_pair_gone)
      pair.reset();
    // Sends the chunk together with the answer: pages that are asked for before the reader knows
    // their chunk would be misses for another reason.
    std::vector<std::byte> words;
    append(words, answer);
    append(words, chunk_of(answer));
    ::send(control.get(), words.data(), words.size(), MSG_NOSIGNAL);
    sessions_.push_back({std::move(control), std::move(pair)});
  }

  verbs_answer answer_to(const verbs_hello& greeting, const verbs::queue_pair& pair) const {
    const auto& port = device_->port();
    queue_pair_end own;
    own.gid = port.gid;
    own.queue_pair = pair.number();
    own.psn = verbs::random_psn();
    own.mtu_bytes = port.can.mtu_bytes;
    own.message_bytes = port.can.message_bytes;
    own.initiator_depth = port.can.initiator_depth;
    own.responder_depth = port.can.responder_depth;
    verbs_answer answer;
    answer.inc = inc_;
    answer.end = agree(greeting.end, own);
    answer.table_address = reinterpret_cast<std::uint64_t>(pool_.region.data());
    answer.pages_address = reinterpret_cast<std::uint64_t>(pool_.pages);
    answer.granules = pool_.granules;
    answer.chunks = 1;
    answer.region_bytes = pool_.region.size();
    answer.name = padded_name("liar");
    answer.rails = 1;
    return answer;
  }

  static verbs::path path_to(const queue_pair_end& reader, const queue_pair_end& agreed) {
    verbs::path to;
    to.remote_queue_pair = reader.queue_pair;
    to.remote_psn = reader.psn;
    to.own_psn = agreed.psn;
    to.remote_gid = reader.gid;
    to.mtu_bytes = agreed.mtu_bytes;
    to.initiator_depth = agreed.initiator_depth;
    to.responder_depth = agreed.responder_depth;
    return to;
  }

  region_chunk chunk_of(const verbs_answer& answer) const {
    region_chunk chunk;
    chunk.address = answer.table_address;
    chunk.bytes = answer.region_bytes;
    chunk.rkey = region_.remote_key();
    if (tells == lie::wrong_key)
      chunk.rkey ^= 0x5a5a00;
    if (tells == lie::region_gone)
      chunk.rkey = key_of_old_;
    if (tells == lie::past_the_end)
      chunk.rkey = short_region_.remote_key();
    return chunk;
  }

  const served_region pool_;
  const incarnation inc_;
  const std::unique_ptr<verbs::device> device_;
  verbs::completion_queue completions_;
  verbs::memory_region region_;
  verbs::memory_region short_region_;
  std::uint32_t key_of_old_ = 0;
  net::unique_fd listener_;
  std::list<session> sessions_; ///< Connections of readers; only the server's thread uses the list.
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

} // namespace peercache::rdma
