#pragma once

#include "client/client_impl.hpp"
#include "client/remove_plan.hpp"

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// One `remove`: carries out what its plan says (client/remove_plan.hpp).
/// Threads: one object per call. Bound: returns by the deadline, whoever does not answer.
class remove_call {
public:
  remove_call(cache_client::impl& client, std::span<const page_key> keys,
              std::span<page_result> results, deadline until);
  /// For one of several pieces of a large call: holders that were silent in an earlier piece are
  /// not asked again, and unless this is the last one none may take all of the time that is left.
  void leave_out(std::vector<incarnation>& silent, bool is_last) noexcept {
    silent_ = &silent;
    is_last_ = is_last;
  }
  void run(directory_lookup& lookup);
  void run_everywhere();

private:
  using pending_answer = decltype(std::declval<caf::scoped_actor&>()->request(
      std::declval<link::gateway_actor>(), std::chrono::milliseconds{}, link::remove_atom_v,
      std::string{}));

  /// What a set of this host has put is in the pool before it is removed there. Notes which of the
  /// keys are.
  void await_own_puts();
  /// Asks all holders before it waits for the first: one that is silent holds up no other.
  void ask(const link::topology& cluster, const std::vector<remove_plan::share>& shares);
  /// Sends one question, unless it is of no use.
  std::optional<pending_answer> send(session::caller& self, const link::peer* holder,
                                     const remove_plan::share& part);
  void forget_places();

  cache_client::impl& client_;
  std::span<const page_key> keys_;
  const deadline until_;
  own_pool_ptr own_;
  remove_plan plan_;
  std::vector<incarnation>* silent_ = nullptr;
  bool is_last_ = true;
};

} // namespace peercache::client
