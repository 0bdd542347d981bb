#include "client/member_answers.hpp"

#include "common/assert.hpp"
#include "common/interruption.hpp"

#include <utility>

namespace peercache::client {

std::size_t member_answers::ask(const incarnation& whom, link::member_question kind,
                                std::string body, member_channel::time_point until) {
  std::size_t index = 0;
  {
    std::lock_guard guard{state_->lock};
    index = state_->outcomes.size();
    state_->outcomes.emplace_back();
    ++state_->open;
  }
  channels_.ask(whom, {kind, std::move(body), until, [state = state_, index](member_answer answer) {
                         {
                           std::lock_guard guard{state->lock};
                           PEERCACHE_ASSERT(!state->outcomes[index].ended);
                           auto& outcome = state->outcomes[index];
                           outcome.ended = true;
                           outcome.how = answer.how;
                           if (answer.how == question_end::answered)
                             outcome.body = std::move(answer.body);
                           --state->open;
                         }
                         state->changed.notify_all();
                       }});
  return index;
}

void member_answers::wait(member_channel::time_point until) {
  const close_signal::waiter at_close(closing_, [state = state_] {
    {
      std::lock_guard guard{state->lock};
      state->closed = true;
    }
    state->changed.notify_all();
  });
  std::unique_lock guard{state_->lock};
  wait_interruptibly(guard, state_->changed, until,
                     [this] { return state_->open == 0 || state_->closed; });
}

member_answers::outcome member_answers::take(std::size_t index) {
  std::lock_guard guard{state_->lock};
  PEERCACHE_ASSERT(index < state_->outcomes.size());
  auto& asked = state_->outcomes[index];
  return {asked.ended, asked.how, std::move(asked.body)};
}

} // namespace peercache::client
