#pragma once

#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/result.hpp"
#include "link/lookup_datagram.hpp"
#include "net/datagram_socket.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace peercache::actors {

/// What became of the datagrams that came to a look-up port. Threads: any.
class served_datagrams {
public:
  struct counts {
    std::uint64_t answered = 0;
    std::uint64_t sent_to_tcp = 0; ///< The shard was busy, or the answer too long.
    std::uint64_t refused = 0;     ///< No question of a client with a pass.
    std::uint64_t paced = 0;       ///< Beyond what a client may ask.
  };

  counts counted() const noexcept {
    return {answered_.load(), sent_to_tcp_.load(), refused_.load(), paced_.load()};
  }

private:
  friend class lookup_datagrams;
  std::atomic<std::uint64_t> answered_{0}, sent_to_tcp_{0}, refused_{0}, paced_{0};
};

/// Answers look-ups that come by datagram (link/lookup_datagram.hpp): those of clients that have a
/// pass, and only what can be answered at once. Clients ask all else over TCP.
///
/// Threads: one at a time. Time is an argument. Errors: none; what is not a question of a client
/// with a pass is not answered, and counted. Limits: `turn_max` datagrams of the socket a turn;
/// each client `questions_a_second` in the long run and `questions_at_once` at once; what it asks
/// beyond that is not answered.
class lookup_datagrams {
public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Answers packed keys; nothing: not now.
  using answerer = std::function<std::optional<result<std::string>>(std::string_view keys)>;

  static constexpr std::int64_t questions_a_second = 100'000;
  static constexpr std::int64_t questions_at_once = 4'096;

  /// @param self incarnation of this process
  lookup_datagrams(net::datagram_socket socket, const incarnation& self,
                   std::shared_ptr<served_datagrams> counts)
      : socket_(std::move(socket)), self_(self), counts_(std::move(counts)) {}

  int fd() const noexcept { return socket_.fd(); }
  /// The pass of this client, in bytes; the same ones each time. Empty: the system gives no random
  /// bytes. @param host address of the client (net::peer_address): it is answered there alone, so
  /// that nobody who sends its questions again has the answers sent to others
  std::string pass_of(std::uint64_t client, std::string_view host);
  /// Takes the client's pass back.
  void forget(std::uint64_t client) { clients_.erase(client); }
  /// Serves one turn. Returns whether more may have arrived.
  bool serve(const answerer& look_up, time_point now);

private:
  struct asking {
    net::datagram_key secret;
    std::string host;
    /// When all questions of this client would have been answered at `questions_a_second`.
    time_point paid_until;
  };

  void answer(const net::datagram& asked, const answerer& look_up, time_point now);
  static bool is_paced(asking& client, time_point now) noexcept;
  static link::datagram_answer fitting(const std::optional<result<std::string>>& found) noexcept;

  net::datagram_socket socket_;
  const incarnation self_;
  const std::shared_ptr<served_datagrams> counts_;
  link::lookup_datagrams_codec codec_;
  std::unordered_map<std::uint64_t, asking> clients_; ///< Clients with a pass.
  std::uint64_t nonce_ = 0;            ///< Number of the last answer, whoever got it.
  std::vector<std::string> answers_;   ///< Bytes of the answers of a turn.
  std::vector<net::datagram> sending_; ///< As many as `answers_` that are in use.
};

} // namespace peercache::actors
