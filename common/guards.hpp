#pragma once

#include <cstdint>

namespace peercache {

/// The checks that keep wrong bytes and other harm away; each enumerator's comment is what the
/// check demands. Test programs can switch each one off, to show that it matters; programs that
/// users run link `guards.cpp`, where no switch exists.
enum class guard : std::uint8_t {
  generation,   ///< A slot's generation equals the record's (TCP pin, same-host re-check).
  incarnation,  ///< The record's incarnation equals that of the connection or of the mapped pool.
  checksum,     ///< The bytes that arrived have the record's checksum.
  key,          ///< The slot's key equals the requested one.
  pin,          ///< A slot is not reused, nor memory unmapped, while its bytes are being sent.
  session_lock, ///< A silent client's reserved slots are kept until its process is dead.
  fence,        ///< The slot's entry is READ after the last byte of the payload has arrived.
  view,         ///< An older view of the cluster changes nothing.
  purge,        ///< A shard forgets the records of processes that are gone.
  withdraw,     ///< A withdrawal removes no newer fact than the one it names.
  /// The view that follows a view with three or more masters has the votes of most of these
  /// masters.
  majority,
  /// A slot is read or published only when its filler has said that all bytes are in place.
  filled,
  epoch,    ///< A page that was set before its space was cleared is refused.
  adoption, ///< A former process's page is read only when its bytes have their checksum.
  fragment, ///< No node makes a fragment of the cluster while most masters of its view answer.
  /// A failed hand-over is told to its user only when nothing can write to its pages any longer.
  quiet,
  all_pieces, ///< A hand-over succeeds only when its last piece has been judged.
  /// What was read of a directory shard counts only if the shard did not change meanwhile.
  reread,
  frames, ///< CAF reads only messages that processes of ours send (link/basp_guard.hpp).
  /// A difference makes a view only of the view that it names, and only the view whose digest it
  /// names.
  difference
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
  views_late_ms,    ///< The client hears of each change of the cluster this many ms later.
  /// In every n-th look-up the client swaps the locations of its first two keys.
  swap_locations_one_in,
  disk_error_percent, ///< Percent of the disk's transfers and syncs that fail.
  disk_stall_ms,      ///< Extra time of each of the disk's transfers and syncs.
  /// How long `disk_error_percent` and `disk_stall_ms` last from the disk's first write on, in
  /// milliseconds; 0: for ever.
  disk_faults_for_ms,
  /// The process kills itself at this step of the disk (1 to 10, in the order of storage::disk_step
  /// in tests/fakes/faulty_disk_io.hpp).
  disk_kill_point,
  /// Visit of `disk_kill_point` at which the process kills itself; 1: the first.
  disk_kill_count,
  /// The leader sends, after every n-th view, the previous view once more.
  old_views_one_in,
  /// When not 0, a pool never hears that its withdrawals arrived, and sends them again.
  withdrawals_unheard,
  /// The process kills itself at this step of taking over the pool of a former process (1 to 8, in
  /// the order of storage::take_over_step).
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
