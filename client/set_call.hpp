#pragma once

#include "client/client_impl.hpp"

#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// One `set`: slots from the stock or from the node, one copy of each page into its final place,
/// one message that commits them all. Threads: one object per call.
class set_call {
public:
  set_call(cache_client::impl& client, std::span<const set_page> pages,
           std::span<page_result> results, deadline until, own_pool_ptr pool);
  void run();

private:
  /// Rejects malformed pages and those that this host's pool has; sums up the bytes of the others.
  void sort_out();
  void leave_out_those_here();
  bool is_late() const noexcept;
  /// Gives leased slots to the pending pages; those that get none, in order.
  std::vector<std::uint32_t> take_leases();
  /// Asks the node for slots for these pages.
  slot_request_ptr ask_for_slots(const std::vector<std::uint32_t>& indices);
  /// Waits for those slots: each page has one then, or its reason.
  void take_answer(slot_request& request, const std::vector<std::uint32_t>& indices);
  /// Copies every pending page that has a slot, for as long as the deadline has not passed.
  void copy_in();
  /// False when the deadline passed meanwhile: the slot is not filled.
  bool copy_in(std::uint32_t index);
  /// All clients of this host find the copied pages from here on. What they are, in the order of
  /// the call.
  std::string make_readable();
  void commit();
  std::string next_lengths(const std::string& filled);
  /// Gives the slots back that there was no time to fill.
  void abandon_unfilled();
  /// Ends every pending page with this reason.
  void fail_pending(page_status reason);

  cache_client::impl& client_;
  std::span<const set_page> pages_;
  std::span<page_result> results_;
  const deadline until_;
  own_pool_ptr pool_;
  std::vector<slot_id> slots_;           ///< Per page.
  std::vector<std::uint64_t> checksums_; ///< Per page; 0 when there is none.
  std::string unfilled_;                 ///< Packed slots of pages that came too late.
  std::uint64_t bytes_ = 0;              ///< Of the pending pages.
};

} // namespace peercache::client
