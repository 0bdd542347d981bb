#include "client/members/member_answers.hpp"

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
                           state->ended.push_back(index);
                           outcome.how = answer.how;
                           if (answer.how == question_end::answered)
                             outcome.body = std::move(answer.body);
                           --state->open;
                         }
                         state->changed.notify_all();
                       }});
  return index;
}

template <class Enough>
void member_answers::wait_for(member_channel::time_point until, Enough enough) {
  const close_signal::waiter at_close(closing_, [state = state_] {
    {
      std::lock_guard guard{state->lock};
      state->closed = true;
    }
    state->changed.notify_all();
  });
  std::unique_lock guard{state_->lock};
  wait_interruptibly(guard, state_->changed, until,
                     [&] { return state_->closed || enough(*state_); });
}

void member_answers::wait(member_channel::time_point until) {
  wait_for(until, [](const shared_state& now) { return now.open == 0; });
}

std::vector<std::size_t> member_answers::next_ended(member_channel::time_point until) {
  wait_for(until, [](const shared_state& now) { return !now.ended.empty() || now.open == 0; });
  std::lock_guard guard{state_->lock};
  return std::exchange(state_->ended, {});
}

member_answers::outcome member_answers::take(std::size_t index) {
  std::lock_guard guard{state_->lock};
  PEERCACHE_ASSERT(index < state_->outcomes.size());
  auto& asked = state_->outcomes[index];
  return {asked.ended, asked.how, std::move(asked.body)};
}

} // namespace peercache::client
