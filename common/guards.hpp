#pragma once

#include <cstdint>

namespace peercache {

/// The checks that keep wrong bytes, and harm, away. Each can be switched off in test programs, to
/// show that it matters; programs that users run link `guards.cpp`, where no switch exists.
enum class guard : std::uint8_t {
  generation,   ///< A slot's generation equals the record's (TCP pin, same-host re-check).
  incarnation,  ///< The record's incarnation equals that of the connection or of the mapped pool.
  checksum,     ///< The bytes that arrived have the record's checksum.
  key,          ///< The slot's key equals the requested one.
  pin,          ///< A slot is not reused while its bytes are being sent.
  session_lock, ///< A silent client's reserved slots are kept until its process is dead.
  fence,        ///< The slot's entry is READ after the last byte of the payload has arrived.
  view,         ///< An older view of the cluster changes nothing.
  purge,        ///< A shard forgets the records of processes that are gone.
  withdraw,     ///< A withdrawal removes no newer fact than the one it names.
  majority,     ///< The view that follows one of three or more masters needs most of these masters.
  /// A slot is read or published only when its filler has said that all bytes are in place.
  filled,
  epoch,      ///< A page that was set before its space was cleared is refused.
  adoption,   ///< A former process's page is read only when its bytes have their checksum.
  fragment,   ///< No node makes a fragment of the cluster while enough masters answer.
  quiet,      ///< A hand-over's room is told as failed only when nothing can write to its pages.
  all_pieces, ///< A hand-over's room succeeds only when its last piece has been judged.
  frames      ///< CAF reads only messages that processes of ours send (link/basp_guard.hpp).
};

/// Whether a check is made; true in every program that users run. Threads: any.
/// Tests: the library `peercache_switchable_guards` answers from PEERCACHE_TEST_GUARDS_OFF, a
/// comma-separated list of names read once.
bool guard_on(guard which) noexcept;

/// Faults that test programs inject to give the guards something to find.
enum class fault : std::uint8_t {
  flip_byte_one_in, ///< The page server flips a byte of every n-th payload.
  send_chunk_bytes, ///< The page server sends pieces of at most this size.
  send_pause_us,    ///< The page server pauses this long between two pieces.
  views_late_ms,    ///< The client hears of each change of the cluster this much later.
  /// The client takes, in every n-th look-up, one key's location for another's.
  swap_locations_one_in,
  disk_error_percent, ///< Percent of the disk's transfers and syncs that fail.
  disk_stall_ms,      ///< Extra time of each of the disk's transfers and syncs.
  /// How long `disk_error_percent` and `disk_stall_ms` last from the disk's first write on, in
  /// milliseconds; 0: for ever.
  disk_faults_for_ms,
  /// The process kills itself at this step of the disk (1 to 10, in the order of
  /// storage::disk_step).
  disk_kill_point,
  /// Visit of `disk_kill_point` at which the process kills itself; 1: the first.
  disk_kill_count,
  old_views_one_in, ///< The leader sends, after every n-th view, the one before it once more.
  /// When not 0, a pool never hears that its withdrawals arrived, and sends them again.
  withdrawals_unheard,
  /// The process kills itself at this step of taking a pool over (1 to 8, in the order of
  /// storage::take_over_step).
  take_over_kill_point
};

/// The setting of a fault; 0, hence no fault, in every program that users run. Threads: any.
/// Tests: the library `peercache_switchable_guards` answers from PEERCACHE_TEST_FLIP_ONE_IN,
/// PEERCACHE_TEST_SEND_CHUNK_BYTES, PEERCACHE_TEST_SEND_PAUSE_US, PEERCACHE_TEST_VIEWS_LATE_MS,
/// PEERCACHE_TEST_SWAP_LOCATIONS_ONE_IN, PEERCACHE_TEST_DISK_ERROR_PERCENT,
/// PEERCACHE_TEST_DISK_STALL_MS, PEERCACHE_TEST_DISK_FAULTS_FOR_MS, PEERCACHE_TEST_DISK_KILL_POINT,
/// PEERCACHE_TEST_DISK_KILL_COUNT, PEERCACHE_TEST_OLD_VIEWS_ONE_IN,
/// PEERCACHE_TEST_WITHDRAWALS_UNHEARD and PEERCACHE_TEST_TAKE_OVER_KILL_POINT, read once.
std::uint32_t fault_setting(fault which) noexcept;

} // namespace peercache
