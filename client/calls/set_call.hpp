#pragma once

#include "client/calls/client_impl.hpp"
#include "client/calls/set_plan.hpp"

#include <span>
#include <string>

namespace peercache::client {

/// One `set`: slots from the stock or from the node, one copy of each page into its final place,
/// one message that commits them all. The plan (client/calls/set_plan.hpp) decides each page.
/// Threads: one object per call.
class set_call {
public:
  set_call(client_impl& client, std::span<const set_page> pages, std::span<page_result> results,
           deadline until, own_pool_ptr pool);
  void run();
  const longest_wait& wait() const noexcept { return wait_; }

private:
  void leave_out_those_here();
  bool is_late() const noexcept;
  void take_leases();
  /// Asks the node for slots of these lengths, packed. Null when there are none to ask for.
  slot_request_ptr ask_for_slots(std::string lengths);
  /// Notes a wait for room in the pool, which began at `begun`.
  void waited_since(std::chrono::steady_clock::time_point begun);
  /// Waits for the slots of `request`: afterwards each page has a slot, or its reason.
  void take_answer(slot_request& request);
  /// Asks again, a few times, for pages that the pool had no space for.
  void wait_for_space();
  /// Copies every pending page that has a slot, until the deadline.
  void copy_in();
  /// Copies one page. False when the deadline passed during the copy: the slot is not filled.
  bool copy_in(const set_plan::page& page);
  /// Passes the filled pages on, and with them the call's stay in the window.
  void commit(set_window::stay& stay);
  std::string next_lengths(const std::string& filled);
  /// Gives the slots back that there was no time to fill.
  void abandon_unfilled();

  client_impl& client_;
  std::span<const set_page> pages_;
  const deadline until_;
  own_pool_ptr pool_;
  set_plan plan_;
  std::uint64_t bytes_ = 0; ///< Bytes of this call in the set window.
  longest_wait wait_;
};

} // namespace peercache::client
