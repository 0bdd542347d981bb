#pragma once

#include "client/calls/client_impl.hpp"
#include "client/calls/remove_plan.hpp"
#include "client/members/member_answers.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// A holder that left a question of a call without an answer, and the status that its pages get.
struct silent_holder {
  incarnation holder;
  page_status why = page_status::timed_out;
};

/// One `remove`; carries out its plan (client/calls/remove_plan.hpp). Threads: one object per call.
/// Bound: returns by the deadline, even without answers.
class remove_call {
public:
  remove_call(client_impl& client, std::span<const page_key> keys, std::span<page_result> results,
              deadline until);
  /// Call this when the call is one of several pieces. Holders that were silent in an earlier piece
  /// are not asked again, and only in the last piece a holder may take all of the remaining time.
  void leave_out(std::vector<silent_holder>& silent, bool is_last) noexcept {
    silent_ = &silent;
    is_last_ = is_last;
  }
  void run(directory_lookup& lookup);
  void run_everywhere();

private:
  /// Waits until pages that a set of this host has put are in the pool, where this call can remove
  /// them. Notes which keys the pool has.
  void await_own_puts();
  /// Asks all holders before it waits for any answer, so that a silent holder does not delay
  /// another holder's question.
  void ask(const link::topology& cluster, const std::vector<remove_plan::share>& shares);
  /// Asks one holder, who may take until `patience`. Nothing when it cannot be asked; otherwise the
  /// question's index.
  std::optional<std::size_t> send(member_answers& answers, const link::peer* holder,
                                  const remove_plan::share& part, deadline patience);
  void settle(const remove_plan::share& part, const member_answers::outcome& said);
  void forget_places();

  client_impl& client_;
  std::span<const page_key> keys_;
  const deadline until_;
  own_pool_ptr own_;
  remove_plan plan_;
  std::vector<silent_holder>* silent_ = nullptr;
  bool is_last_ = true;
};

} // namespace peercache::client
