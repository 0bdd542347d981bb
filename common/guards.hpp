#pragma once

#include <cstdint>

namespace peercache {

/// The checks that keep wrong bytes away. Each can be switched off in test programs, to show that
/// it matters; programs that users run link `guards.cpp`, where no switch exists.
enum class guard : std::uint8_t {
  generation,   ///< The slot's generation equals the record's (TCP pin, same-host re-check).
  incarnation,  ///< The record's incarnation equals the connection's / the mapped pool's.
  checksum,     ///< The bytes that arrived have the record's checksum.
  key,          ///< The slot's key equals the requested one.
  pin,          ///< A slot is not reused while its bytes are being sent.
  session_lock, ///< A silent client's reserved slots are kept until its process is dead.
  fence,        ///< The slot's entry is READ after the last byte of the payload has arrived.
  view,         ///< An older view of the cluster changes nothing.
  purge,        ///< A shard forgets the records of processes that are gone.
  withdraw,     ///< A withdrawal removes no newer fact than the one it names.
  majority,     ///< The view after one of three or more masters needs most of these.
  filled,       ///< Only a slot whose filler has said that all is in place is read or published.
  epoch,        ///< Pages that were set before their space was cleared are refused.
  adoption,     ///< A former process's page is read only when its bytes have their checksum.
  fragment      ///< Nobody makes a fragment while enough masters answer.
};

/// True in every program that users run. Threads: any.
/// Tests: the library `peercache_switchable_guards` answers from PEERCACHE_TEST_GUARDS_OFF, a
/// comma-separated list of names read once.
bool guard_on(guard which) noexcept;

/// Faults that test programs inject to give the guards something to find.
enum class fault : std::uint8_t {
  flip_byte_one_in,      ///< The page server flips a byte of every n-th payload.
  send_chunk_bytes,      ///< The page server sends pieces of at most this size.
  send_pause_us,         ///< The page server pauses this long between two pieces.
  views_late_ms,         ///< The client hears of each change of the cluster this much later.
  swap_locations_one_in, ///< The client takes, in every n-th look-up, one key's location for
                         ///< another's.
  disk_error_percent,    ///< Percent of the disk's transfers and syncs that fail.
  disk_stall_ms,         ///< Extra time of each of the disk's transfers and syncs.
  disk_faults_for_ms,    ///< Time of these two faults from the disk's first write on; 0: for ever.
  disk_kill_point,       ///< The process kills itself at this step of the disk (1 to 10, in the
                         ///< order of storage::disk_step).
  disk_kill_count,       ///< Visit of that step at which the process does so; 1: the first.
  old_views_one_in,      ///< The leader sends, after every n-th view, the one before it once more.
  withdrawals_unheard,   ///< When not 0, a pool never hears that its withdrawals arrived, and sends
                         ///< them again.
  take_over_kill_point ///< The process kills itself at this step of taking a pool over (1 to 8, in
                       ///< the order of storage::take_over_step).
};

/// 0, hence no fault, in every program that users run. Threads: any.
/// Tests: the library `peercache_switchable_guards` answers from PEERCACHE_TEST_FLIP_ONE_IN,
/// PEERCACHE_TEST_SEND_CHUNK_BYTES, PEERCACHE_TEST_SEND_PAUSE_US, PEERCACHE_TEST_VIEWS_LATE_MS,
/// PEERCACHE_TEST_SWAP_LOCATIONS_ONE_IN, PEERCACHE_TEST_DISK_ERROR_PERCENT,
/// PEERCACHE_TEST_DISK_STALL_MS, PEERCACHE_TEST_DISK_FAULTS_FOR_MS, PEERCACHE_TEST_DISK_KILL_POINT,
/// PEERCACHE_TEST_DISK_KILL_COUNT, PEERCACHE_TEST_OLD_VIEWS_ONE_IN,
/// PEERCACHE_TEST_WITHDRAWALS_UNHEARD and PEERCACHE_TEST_TAKE_OVER_KILL_POINT, read once.
std::uint32_t fault_setting(fault which) noexcept;

} // namespace peercache
