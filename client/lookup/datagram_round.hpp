#pragma once

#include "client/lookup/lookup_carrier.hpp"
#include "client/lookup/lookup_over_tcp.hpp"
#include "client/members/datagram_owners.hpp"
#include "client/notes/counters.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

class lookup_over_udp;

/// The questions of one call that travel by datagram: sent together, with one system call, and so
/// are their answers received. An answer counts when its number is that of an open question of this
/// round, and the question's owner has sealed it; numbers are never used twice, so an answer to an
/// earlier question is nobody's.
///
/// Threads: one at a time. Lifetime: the carriers end before the round; `owners`, `totals` and the
/// channels outlive it. Bounds: `in_flight_max` questions are under way at a time, for their
/// answers have to fit the socket's buffer; further ones are sent as answers come.
class datagram_round {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Questions of a round from which on datagrams are used. With 6 and 12 owners datagrams cost the
  /// asking thread a tenth to a fifth more than TCP, with 18 as much (tests/real/fanout).
  static constexpr std::size_t worth_from = 16;
  static constexpr std::size_t in_flight_max = 128;
  /// Time after which a datagram counts as lost, and its question is asked over TCP: longer than a
  /// living owner takes on a crowded machine, and short beside the time after which other owners
  /// are asked (lookup_course).
  static constexpr std::chrono::milliseconds patience{4};
  /// Pause between two looks for further answers, to which the kernel adds its slack (50 us).
  static constexpr std::chrono::microseconds gather_pause{20};
  static constexpr std::chrono::microseconds gather_max{250};
  /// When more questions than these are under way, the pause is slept out: a wake-up for each
  /// answer costs this thread 6 us, and the thread that answers 3 us.
  static constexpr std::size_t gather_from = 8;

  datagram_round(datagram_owners& owners, lookup_channels& channels, counters& totals)
      : owners_(owners), channels_(channels), counters_(totals) {}
  datagram_round(const datagram_round&) = delete;
  datagram_round& operator=(const datagram_round&) = delete;
  ~datagram_round();

  /// Returns a carrier of a question of this length; null when the question has to go over TCP.
  std::unique_ptr<lookup_carrier> carrier_to(const link::peer& owner, std::size_t request_bytes);
  /// Sends what the carriers have begun to ask.
  void send();
  /// What to wait for; fd is negative when no answer is awaited.
  pollfd awaited() const noexcept;
  /// Takes the answers that have come, for the carriers whose they are; then those that follow soon
  /// upon them, for `gather_max` at most: each return costs a look at all questions of the call.
  void receive();

private:
  friend class lookup_over_udp;

  /// Gives the carrier's question a number.
  std::uint64_t add(lookup_over_udp& asking);
  /// Forgets a question that nobody waits for any longer.
  void drop(std::uint64_t number) noexcept;
  lookup_over_udp* open_of(std::uint64_t number) const noexcept;
  bool take(std::string_view bytes);
  void take_arrived();
  /// Waits a little for further answers; false when none has come.
  bool pause() const;

  datagram_owners& owners_;
  lookup_channels& channels_;
  counters& counters_;
  std::unique_ptr<net::datagram_socket> socket_; ///< Null until the first question.
  int family_ = 0;                               ///< Address family of `socket_`.
  std::uint64_t round_ = 0;                      ///< Upper part of the questions' numbers.
  /// The carriers by the lower part of their questions' numbers; null: the question is over.
  std::vector<lookup_over_udp*> asking_;
  std::size_t open_ = 0;  ///< Carriers in `asking_`.
  std::size_t first_ = 0; ///< Index in `asking_` of the first question that was not sent.
  std::size_t in_flight_ = 0;
  /// Nothing until the first question: to make one costs a call of one key a tenth of its time.
  std::optional<link::lookup_datagrams_codec> codec_;
  std::string bytes_;                  ///< Questions that are being sent, one behind the other.
  std::vector<net::datagram> sending_; ///< Views of `bytes_`, one for each question.
};

/// Carries a question in a datagram, and over TCP when the datagram is lost, or the owner asks for
/// it. Then the owner is asked anew: it is not blamed for a lost datagram. An answer by datagram
/// that comes while TCP carries the question only tells that datagrams arrive: the connection can
/// be used again when its own answer has come.
class lookup_over_udp final : public lookup_carrier {
public:
  lookup_over_udp(datagram_round& round, std::shared_ptr<datagram_owner> owner,
                  const link::peer& peer)
      : round_(round), owner_(std::move(owner)), peer_(peer) {}
  ~lookup_over_udp() override { leave(); }

  state start(std::string_view request) override;
  state advance() override;
  std::string_view answer() const override { return tcp_ ? tcp_->answer() : answer_; }
  pollfd awaited() const override { return tcp_ ? tcp_->awaited() : pollfd{-1, 0, 0}; }
  time_point look_at() const override { return tcp_ ? time_point::max() : due_; }
  void keep() override;

private:
  friend class datagram_round;
  enum class way : std::uint8_t { waits, under_way, arrived, turned_away, lost };

  void end(way how) noexcept;
  void lose() noexcept;
  void leave() noexcept;
  state ask_over_tcp();
  state judged(state now);

  datagram_round& round_;
  const std::shared_ptr<datagram_owner> owner_;
  const link::peer& peer_;
  std::string_view request_;
  std::string answer_;
  std::uint64_t number_ = 0; ///< 0: the round does not know this carrier.
  way way_ = way::waits;
  time_point due_ = time_point::max(); ///< When to go on; the minimum: at once.
  std::optional<lookup_over_tcp> tcp_;
};

} // namespace peercache::client
