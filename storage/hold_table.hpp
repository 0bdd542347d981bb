#pragma once

#include "common/ids.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache::storage {

/// The account of a pool's holds, in its shared memory in front of the hold words (little endian;
/// bump `pool_layout_version` with any change): 32 buckets of 8 bytes. A bucket sums up the holds
/// that end within the same 512 ms; low 40 bits: granules of the held pages, high 24 bits: number
/// of the held pages. All zero: nothing is held. How many granules may be held at a time is in the
/// pool's header, which clients cannot write.
///
/// Behind the account lies one word of 8 bytes for each granule of the pool; a page's word is that
/// of its first granule:
///
///   bits     field
///       0    shared  1: several held the page at a time, so only time ends the hold
///   1..23    holder  tag of the first process that held the page
///  24..63    end     of the hold, in ms of CLOCK_MONOTONIC; a word of ones: closed
struct hold_block {
  static constexpr std::size_t bucket_count = 32;

  std::array<std::atomic<std::uint64_t>, bucket_count> buckets;
};
static_assert(sizeof(hold_block) == 8 * hold_block::bucket_count);

/// Names a client process that holds pages. Tags are drawn at random; two processes with equal tags
/// may at worst end each other's holds early.
struct holder_tag {
  std::uint32_t value = 0; ///< The tag; only its low 23 bits are used.
};

enum class hold_outcome : std::uint8_t {
  held,
  refused, ///< The share of the pool that may be held is taken, or the pool has no holds.
  gone,    ///< The slot has no page that could be held.
};
inline constexpr std::size_t hold_outcome_count = 3;

/// Which pages of a pool must not be evicted for now, because somebody was told that they are there
/// and will come to read them. A view, cheap to copy; the memory is a `pool_memory`'s.
///
/// A hold ends by itself at its time, also when its holder has died, or by `release`. Holds that
/// overlap become one that only time ends. The owner closes a page's word before it gives the page
/// up: of an eviction and a hold that meet, one sees the other.
///
/// Threads: only the pool's owner calls the owner's half, one thread at a time; the other half is
/// safe from any thread of any process that maps the pool. Units: time is the steady clock's, which
/// the processes of a host share. Bound: `duration_max` for a hold, and the limit for all of them,
/// which each thread that holds at the same moment may overstep by one page, and a `hold_course` by
/// one part in `course_parts`. Invariants: (1) a word that is closed or over never keeps a page;
/// (2) a process that dies between a word and its bucket, and a hold that another thread ends
/// before its course was settled, leave a wrong account until that bucket is over.
class hold_table {
  friend class hold_course;

public:
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds duration_max{10'000};
  /// A `hold_course` is settled when more than this part (one in 64) of the granules that may be
  /// held waits to be counted.
  static constexpr std::uint64_t course_parts = 64;

  struct sums {
    std::uint64_t pages = 0;
    std::uint64_t granules = 0;
  };

  /// A view of no table: nothing is ever held.
  hold_table() = default;
  /// A view of the limit, in granules, the account and the word of each granule. Zero everywhere is
  /// a table in which nothing is held, and nothing may be.
  hold_table(std::atomic<std::uint64_t>& granules_max, hold_block& block,
             std::span<std::atomic<std::uint64_t>> words) noexcept
      : granules_max_(&granules_max), block_(&block), words_(words) {}

  // Functions that only the pool's owner calls.

  /// Begins the account anew, and says how many granules of pages may be held at a time; 0: none.
  /// Earlier holds keep their pages until they are over, but no longer count.
  void limit(std::uint64_t granules_max) noexcept;
  /// Allows holds of the page that the slot has from now on.
  void open(slot_id slot) noexcept;
  /// Forbids holds of the slot's page from now on, unless the page is held. False: the page is
  /// held.
  bool close(slot_id slot, time_point now) noexcept;
  /// Forbids holds of the slot's page from now on, and ends the page's hold, if any.
  void close_anyway(slot_id slot, std::uint32_t granules, time_point now) noexcept;
  /// Empties the buckets of holds that are over. Returns the holds that only time has ended.
  sums sweep(time_point now) noexcept;

  // Functions for any process that maps the pool.

  bool is_held(slot_id slot, time_point now) const noexcept;
  /// Keeps the slot's page from eviction until `until`, at most for `duration_max`. The caller has
  /// to look afterwards whether the slot still has the page that it means, and to take the hold
  /// back by `release` if not.
  hold_outcome hold(slot_id slot, std::uint32_t granules, holder_tag who, time_point now,
                    time_point until) noexcept;
  /// Ends the hold of the slot's page, if only `who` has it. False: nothing changed.
  bool release(slot_id slot, std::uint32_t granules, holder_tag who, time_point now) noexcept;
  /// Loads the slot's hold word into the CPU's cache, so that the next call for this slot is
  /// faster.
  void prefetch(slot_id slot) const noexcept;
  /// The number of pages that are held now, and of their granules.
  sums held(time_point now) const noexcept;
  /// The granules that may be held at a time.
  std::uint64_t granules_max() const noexcept;

private:
  std::uint64_t taken(std::uint64_t now_ms) const noexcept;
  void count(std::uint64_t end_ms, const sums& pages) noexcept;
  void uncount(std::uint64_t end_ms, const sums& pages) noexcept;

  std::atomic<std::uint64_t>* granules_max_ = nullptr;
  hold_block* block_ = nullptr;
  std::span<std::atomic<std::uint64_t>> words_;
};

/// The holds that one call makes, one after the other and all until the same time: a page costs one
/// word, and the account is looked at and changed once for many pages. Threads: one. Lifetime: the
/// table's memory outlives the course; the account is complete after `settle`, which the destructor
/// calls as well.
class hold_course {
public:
  using time_point = hold_table::time_point;

  /// Makes a course whose holds last until `until`, at most for `hold_table::duration_max`.
  hold_course(const hold_table& table, holder_tag who, time_point now, time_point until) noexcept;
  ~hold_course() { settle(); }
  hold_course(const hold_course&) = delete;
  hold_course& operator=(const hold_course&) = delete;

  /// Holds the slot's page as `hold_table::hold` does.
  hold_outcome hold(slot_id slot, std::uint32_t granules) noexcept;
  /// Takes a hold of this course back, as `hold_table::release` does.
  bool release(slot_id slot, std::uint32_t granules) noexcept;
  void settle() noexcept;

private:
  bool has_room(std::uint32_t granules) noexcept;
  void count(std::uint64_t before, bool live, std::uint64_t end_ms,
             std::uint32_t granules) noexcept;

  hold_table table_;
  const holder_tag who_;
  const time_point now_;
  const std::uint64_t now_ms_;
  const std::uint64_t end_ms_;
  hold_table::sums pending_; ///< Holds that are not in the account yet.
  std::uint64_t room_ = 0; ///< Granules that may still be held; valid where `knows_room_` is true.
  bool knows_room_ = false;
};

} // namespace peercache::storage
