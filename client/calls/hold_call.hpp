#pragma once

#include "client/calls/client_impl.hpp"
#include "client/calls/hold_plan.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace peercache::client {

/// The holds of one `exists`, which may find its pages in pieces. A page of this host's pool is
/// held in its shared memory as it is found; the holders of other pages are asked, one message to
/// each. Threads: one object per call. Bound: holders are waited for until the deadline, and for
/// all pieces of the call no longer than `patience`; pages of a silent holder are not held, and the
/// question to it is taken back.
class hold_call {
public:
  static constexpr std::chrono::milliseconds patience{50};

  /// @param results those of the whole call @param chain whether only the pages before the first
  /// one that is not found are to be held
  hold_call(client_impl& client, const exists_hold& wanted, std::span<page_result> results,
            deadline until, bool chain = false);

  /// Begins a piece of the call. @param own this host's pool; null: there is none
  void begin(const own_pool_ptr& own);
  /// Notes that page `index` of the whole call was found.
  void found(std::size_t index, const directory::page_location& at);
  /// Holds the pages of this host that were found and are not held yet. Call before any wait,
  /// because the time of the holds begins with the first page.
  void hold_found_here();
  /// Holds the pages of this piece that were found.
  void run();
  bool is_chain() const noexcept { return chain_; }
  /// Notes that page `index` of the chain is not found: no page from there on is held. Call before
  /// `run`.
  void end_chain(std::size_t index);
  /// Takes back the holds of pages whose group is not held as a whole, and of those beyond the end
  /// of a chain.
  void settle();

private:
  /// A page is held this many pages after its hold's memory was prefetched into the CPU's cache.
  static constexpr std::size_t holds_ahead = 8;

  struct place {
    incarnation holder;
    generation gen;
    std::uint32_t index = 0;
    slot_id slot;
    std::uint32_t length_bytes = 0;
  };

  bool wanted() const noexcept { return wanted_.duration.count() > 0; }
  void hold_soon(const place& page);
  void hold_here(const place& page);
  void ask_holders();
  void take(const hold_plan::share& asked, const std::optional<std::string>& answer);
  void keep_to_settle(const place& page);
  bool group_is_held(std::size_t index) const;
  void give_back(const place& page);
  void note(std::uint32_t index, storage::hold_outcome outcome);
  void count(hold_fate fate) noexcept { ++counts_[static_cast<std::size_t>(fate)]; }

  client_impl& client_;
  const exists_hold wanted_;
  const std::span<page_result> results_;
  const deadline until_;
  const bool chain_;
  own_pool_ptr own_;
  std::optional<storage::hold_course> course_; ///< Holds pages of this piece in this host's pool;
                                               ///< none: no page is held there.
  std::array<place, holds_ahead> soon_; ///< Found pages of this host, the next ones to be held.
  std::size_t found_here_ = 0;          ///< Pages of this host that were found in this piece; the
                                        ///< last of them are in `soon_`.
  std::chrono::steady_clock::duration waited_{0}; ///< Time that was spent waiting for holders, in
                                                  ///< all pieces.
  std::vector<place> elsewhere_;                  ///< Pages of other pools, of this piece.
  std::vector<place> held_; ///< Held pages of the whole call that may have to be given back.
  std::size_t sure_ = 0;    ///< The call's pages before this one have all been found.
  std::size_t chain_end_;   ///< Pages from this one on are not to be held.
  std::array<std::uint64_t, hold_fate_count> counts_{};
};

} // namespace peercache::client
