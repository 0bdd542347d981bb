#pragma once

#include "actors/serving/lookup_connections.hpp"
#include "actors/serving/lookup_datagrams.hpp"
#include "common/ids.hpp"
#include "net/datagram_socket.hpp"
#include "net/socket.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <unordered_map>
#include <vector>

namespace peercache {

/// The look-up ports of many nodes in one process with one thread, on loopback: each port answers
/// look-ups over TCP and by datagram from a shard in which every key has the same location.
class simulated_peers {
public:
  /// Forks the process that serves. @pre the calling process has one thread
  explicit simulated_peers(std::size_t count);
  /// Kills that process.
  ~simulated_peers();
  simulated_peers(const simulated_peers&) = delete;
  simulated_peers& operator=(const simulated_peers&) = delete;

  const std::vector<std::uint16_t>& ports() const noexcept { return ports_; }
  static incarnation inc_of(std::size_t peer) noexcept { return {7, peer + 1}; }
  static node_id id_of(std::size_t peer) noexcept { return {(peer + 1) * 0x9e3779b97f4a7c15u}; }
  /// CPU time of the serving process until now.
  double cpu_us() const noexcept;

private:
  struct peer {
    net::unique_fd listener;
    actors::lookup_datagrams datagrams;
    actors::lookup_connections connections;
  };
  struct connection {
    net::unique_fd socket;
    std::size_t of = 0; ///< Index of the peer.
  };

  void serve();
  void serve_event(std::uint64_t id);
  void accept(std::size_t at);
  bool serve_connection(std::uint64_t id, connection& from);
  std::string answer_to(std::size_t at, std::uint64_t id, const std::string& question);

  std::vector<std::unique_ptr<peer>> peers_;
  std::vector<std::uint16_t> ports_;
  std::unique_ptr<net::event_poll> events_;
  std::unordered_map<std::uint64_t, connection> open_;
  std::uint64_t last_id_ = 0;
  pid_t process_ = 0;
};

} // namespace peercache
