#pragma once

#include "client/members/close_signal.hpp"
#include "client/members/member_channels.hpp"
#include "common/ids.hpp"

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace peercache::client {

/// The answers to questions that one call asks members, all at once. Threads: one; the thread of
/// the channels brings the answers. Lifetime: answers that come after the end of this object reach
/// nobody. Bound: `wait` returns by its deadline, and when the client is closed or the thread
/// interrupted.
class member_answers {
public:
  member_answers(member_channels& channels, close_signal& closing)
      : channels_(channels), closing_(closing) {}

  /// Asks a member. Returns the question's index; the first question has 0.
  std::size_t ask(const incarnation& whom, link::member_question kind, std::string body,
                  member_channel::time_point until);
  /// Waits until each question has ended.
  void wait(member_channel::time_point until);

  /// Waits until a question has ended whose index was not returned before. Returns the indices of
  /// all such questions; none when there are none, the deadline has passed or the client is closed.
  std::vector<std::size_t> next_ended(member_channel::time_point until);

  /// How a question stands after `wait` or `next_ended`.
  struct outcome {
    bool ended = false;                    ///< An answer came, or it is certain that none will.
    question_end how = question_end::late; ///< Why there is no answer; `late` unless `ended`.
    std::optional<std::string> body;       ///< The body of the answer; nothing: there is none.
  };
  /// Returns how a question stands, with its answer. @pre called once for each question
  outcome take(std::size_t index);

private:
  struct shared_state {
    std::mutex lock;
    std::condition_variable changed;
    std::vector<outcome> outcomes;  ///< Guarded by `lock`, as are the three below.
    std::vector<std::size_t> ended; ///< Indices that `next_ended` has not returned.
    std::size_t open = 0;
    bool closed = false;
  };

  /// Waits until `enough` holds of the state, the deadline has passed or the client is closed.
  template <class Enough>
  void wait_for(member_channel::time_point until, Enough enough);

  member_channels& channels_;
  close_signal& closing_;
  const std::shared_ptr<shared_state> state_ = std::make_shared<shared_state>();
};

} // namespace peercache::client
