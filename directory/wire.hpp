#pragma once

#include "common/error.hpp"
#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "directory/page_location.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The directory's messages: packed little-endian records, one std::string per batch. Any change
/// bumps `wire_version` (link/protocol/gateway.hpp).
///
///   location            offset bytes          publish record     offset bytes
///     node                   0     8            key                   0    32
///     incarnation            8    16            location             32    52
///     generation            24     8            mode                 84     1
///     checksum              32     8            reserved, zero       85     3
///     slot                  40     4
///     length                44     4          withdraw record    offset bytes
///     tier                  48     1            key                   0    32
///     mirrored, 0 or 1      49     1            incarnation          32    16
///     reserved, zero        50     2
///                                               generation           48     8
///                                               tier                 56     1
///                                               reserved, zero       57     7
///   lookup request: keys of 32 bytes; answer: for each key one count byte, then `count` locations;
///   or the byte `not_mine`, then term and version (8 each) of the view by which the key has other
///   owners.
///
/// Encoders append to a string that the caller reuses. Readers check everything: a batch whose size
/// is not a multiple of its record's, that has more than `batch_pages_max` records, or a field out
/// of its range is malformed. Readers allocate nothing; `next` returns false at the end and at the
/// first fault, and `ok` tells the two apart. The string must outlive its reader.
namespace peercache::directory {

namespace wire {
inline constexpr std::size_t key_bytes = 32;
inline constexpr std::size_t location_bytes = 52;
inline constexpr std::size_t publish_record_bytes = key_bytes + location_bytes + 4;
inline constexpr std::size_t withdraw_record_bytes = key_bytes + 16 + 8 + 8;
/// The byte that stands in an answer in place of a key's count of locations when other nodes own
/// the key.
inline constexpr std::uint8_t not_mine = 0xff;
inline constexpr std::size_t answer_bytes_max =
    limits::batch_pages_max * (1 + limits::locations_per_key_max * location_bytes);
static_assert(sizeof(page_key) == key_bytes);
static_assert(publish_record_bytes == 88 && withdraw_record_bytes == 64);
static_assert(limits::locations_per_key_max < not_mine, "the count is one byte");
static_assert(sizeof(view_number) <= limits::locations_per_key_max * location_bytes);
} // namespace wire

enum class publish_mode : std::uint8_t {
  always = 0,
  if_absent = 1, ///< The location is recorded only when no other member has the page in memory.
};

struct publish_record {
  page_key key;
  page_location location;
  publish_mode mode = publish_mode::always;
  bool operator==(const publish_record&) const = default;
};

/// Says that the holder's location of the key is gone, as are all its older ones: those up to this
/// generation, and within this generation up to this tier.
struct withdraw_record {
  page_key key;
  incarnation holder;
  generation gen;
  tier where = tier::memory;
  bool operator==(const withdraw_record&) const = default;
};

void append_publish(std::string& batch, const publish_record& record);
void append_withdraw(std::string& batch, const withdraw_record& record);
void append_lookup(std::string& batch, const page_key& key);
/// Appends the locations of one key to an answer. @pre at most `locations_per_key_max` locations.
void append_answer(std::string& answer, std::span<const page_location> locations);
/// Appends `not_mine`: the shard has no record of the key, and by this view other nodes own it.
void append_not_mine(std::string& answer, const view_number& by);

/// The error to answer when one of the readers below has found a fault in `bytes`.
error malformed(std::string_view what, std::string_view bytes);

/// Walks a batch of fixed-size records; `Record` is publish_record, withdraw_record or page_key.
template <class Record>
class batch_reader {
public:
  explicit batch_reader(std::string_view batch) noexcept;

  bool next(Record& out) noexcept;
  /// Whether the reader has found no fault so far.
  bool ok() const noexcept { return ok_; }
  /// Records in the whole batch; 0 when its size is wrong.
  std::size_t count() const noexcept { return count_; }

private:
  std::string_view rest_;
  std::size_t count_ = 0;
  bool ok_ = true;
};

using publish_reader = batch_reader<publish_record>;
using withdraw_reader = batch_reader<withdraw_record>;
using lookup_reader = batch_reader<page_key>;

/// Walks the answer to a lookup. `next` reads one key's locations, in the order of the request.
class answer_reader {
public:
  explicit answer_reader(std::string_view answer) noexcept
      : rest_(answer), ok_(answer.size() <= wire::answer_bytes_max) {}

  /// Writes up to `locations_per_key_max` locations of the next key to `out`, and their number to
  /// `count`.
  bool next(std::span<page_location, limits::locations_per_key_max> out,
            std::size_t& count) noexcept;
  /// Whether the key of the last `next` has other owners, by `view`; such a key has no locations.
  bool not_mine() const noexcept { return not_mine_; }
  const view_number& view() const noexcept { return view_; }
  bool ok() const noexcept { return ok_; }
  /// Whether the whole answer was read, without a fault.
  bool finished() const noexcept { return ok_ && rest_.empty(); }

private:
  std::string_view rest_;
  view_number view_;
  bool ok_;
  bool not_mine_ = false;
};

} // namespace peercache::directory
