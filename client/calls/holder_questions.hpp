#pragma once

#include "client/lookup/lookup_channels.hpp"
#include "client/members/close_signal.hpp"
#include "client/notes/hold_releases.hpp"
#include "client/read/peer_health.hpp"
#include "client/values/pages.hpp"
#include "link/protocol/topology.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// Asks several nodes at a time to hold pages, on connections that the calling thread polls itself,
/// since each hand-over to another thread costs as much as the node's answer.
///
/// Threads: one. Bounds: `wait` returns by its deadline; a node that has left several questions
/// unanswered is not asked for a while (`peer_health`). A question that was not answered in time is
/// taken back: its release follows on the same connection, which is closed then, so the node holds
/// nothing for it longer than it took to answer. Lifetime: the constructor's arguments outlive this
/// object.
class holder_questions {
public:
  /// @param channels connections that were greeted with `link::member_question_magic`
  /// @param who the holder_tag of the client
  holder_questions(lookup_channels& channels, peer_health& health, close_signal& closing,
                   std::uint32_t who)
      : channels_(channels), health_(health), closing_(closing), who_(who) {}

  /// Asks a node to hold pages for `for_ms`. The first question has the index 0, the next one 1,
  /// and so on.
  /// @param released has pages whose holds the node is told to end first; they stay in it if the
  /// node is not asked
  /// @param pages packed used_page; borrowed until `wait` has returned
  void ask(const link::peer& holder, hold_releases& released, std::string_view pages,
           std::uint32_t for_ms, deadline now);
  /// Waits until each question has ended.
  void wait(deadline until);
  /// Returns one hold_outcome byte for each page; nothing: the question was not answered.
  const std::optional<std::string>& answer(std::size_t index) const {
    return asked_[index].outcomes;
  }

private:
  struct question {
    incarnation holder;
    std::unique_ptr<net::frame_channel> channel; ///< Null: the question has ended.
    std::uint32_t number = 0;                    ///< The question's number on its connection; the
                                                 ///< releases that were sent before it count from
                                                 ///< 1.
    std::size_t bytes_before = 0;                ///< Length of the answers to the releases, which
                                                 ///< come before the question's answer.
    std::string_view pages;
    std::optional<std::string> outcomes;
  };

  void advance(question& asked);
  static bool take(question& asked);
  void fail(question& asked);
  void poll_open(deadline until);
  void take_back(question& asked);
  std::string question_of(std::uint32_t number, std::uint32_t for_ms, std::string_view pages) const;

  lookup_channels& channels_;
  peer_health& health_;
  close_signal& closing_;
  const std::uint32_t who_;
  std::vector<question> asked_;
};

} // namespace peercache::client
