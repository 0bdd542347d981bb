#pragma once

#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "directory/known_lines.hpp"
#include "directory/shard_layout.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache::directory {

/// What a reader knows of another host's shard besides its records: kept from look-up to look-up,
/// and compared with the shard's header in each round that READs a line.
struct known_shard {
  shard_header header;
  std::vector<shard_holder> holders; ///< By their numbers.
};
using known_shard_ptr = std::shared_ptr<const known_shard>;

/// Looks keys up in the memory of another host's shard, which is READ unit by unit: says which
/// units to READ next, and takes what arrived. The first round is the header and the line of each
/// key, the second one the records that the lines name; more are needed for a key whose records
/// changed in between, that shares a hash or a line with many, or has several records, and when the
/// header is not the one that was known. No host but the reader's takes part.
///
/// What counts: the header is in each round in which a line is; when it is another one, the search
/// begins anew. A round of nothing but records goes without it:
///
/// - A record shows by itself that it is whole, the key's, and of the known holder of its number
///   (directory/shard_layout.hpp): so it was there when it was READ. A holder that the header knew
///   for a member when the search began may be gone since then, but what it publishes as a member
///   is right when it is published. So each location that is told was right at some time of the
///   search.
/// - A key's list is READ record by record. When a holder comes twice in it, or it goes on behind
///   as many records as a key may have, the list has changed, and the key's search begins anew: a
///   publish can take the unit that is to be READ next, and lead from there to the list's head.
/// - A holder's node becomes known with its first record, by a change of the header. A record of a
///   known holder without a node is newer than that: the search begins anew.
/// - A key has no record if no place of its lines had its hash, or if the records of those that had
///   are others', and the line and the header, READ again behind these records, are as they were.
/// - A line that is READ with the words of a former search, under the same header, leads to the
///   record that it led to then (directory/known_lines.hpp): the first round is the last.
/// - A gone holder may come back, so a key whose records are all of gone holders needs line and
///   header again as well.
///
/// A clear, or a node that leaves its cluster, lets other hosts ask (`shard::forbid_remote_reads`):
/// a search whose last header was READ before that may still tell a record.
///
/// A line of a former index stays as it was when the index grew, which was behind the header's
/// READ. No order among the READs of one round is needed.
///
/// Threads: none. Errors: `ask`, for which there is always a reason in the shard: it has no view,
/// it changes all the time, or these bytes are not those of a shard.
class remote_search {
public:
  /// Rounds after which the shard's node is asked.
  static constexpr int rounds_max = 16;
  /// Most units of a round.
  static constexpr std::size_t units_max = 1024;
  static constexpr std::size_t keys_max = units_max - 1;

  enum class state : std::uint8_t {
    reading, ///< READ `units`, then `take` them.
    found,   ///< `answer` has the answer.
    ask      ///< The shard's node has to be asked.
  };

  /// What former searches know of the shard's lines; with `of` null nothing is known, nor kept.
  struct memory {
    known_lines* of = nullptr;
    incarnation shard; ///< The process whose shard is searched.
    known_lines::time_point now{};
  };

  /// By which view the reader asks, and whether by it the shard owns a key.
  struct asking {
    view_number by;
    std::function<bool(const page_key&)> owns;
  };

  /// @param known of an earlier search; null: nothing is known
  /// @pre 0 < keys.size() <= keys_max
  remote_search(std::span<const page_key> keys, known_shard_ptr known, asking how)
      : remote_search(keys, std::move(known), std::move(how), memory{}) {}
  /// @param lines outlive the search
  remote_search(std::span<const page_key> keys, known_shard_ptr known, asking how,
                const memory& lines);

  state where() const noexcept { return state_; }
  /// The units to READ in this round. @pre reading
  std::span<const unit_number> units() const noexcept { return units_; }
  /// Takes the units of the round, in their order. @pre arrived.size() == units().size()
  void take(std::span<const unit_words> arrived);

  /// What is known of the shard now; null: nothing.
  const known_shard_ptr& known() const noexcept { return known_; }
  /// The answer to the keys, as `answer_reader` takes it. @pre found
  std::string answer() const;
  /// Units that were asked for, and rounds, so far.
  std::uint64_t reads() const noexcept { return reads_; }
  int rounds() const noexcept { return rounds_; }

private:
  enum class step : std::uint8_t { line, record, line_again, done };
  /// How far one key is.
  struct open_key {
    page_key key;
    std::uint32_t hash = 0;
    std::uint32_t line = 0; ///< The line, counted from the home on.
    step next = step::line;
    unit_words line_words{}; ///< The line as it was READ.
    std::size_t word = 0;    ///< The place of the line that is followed.
    /// `line_words` and the first of `found` are those of a former search, and not yet confirmed.
    bool remembered = false;
    bool others = false;          ///< A place of the line led to a record that is not the key's.
    unit_number record = no_unit; ///< The record that is READ next.
    std::uint32_t records = 0;    ///< Records of the key's list that were READ.
    std::array<page_location, limits::locations_per_key_max> found;
    std::size_t count = 0;
  };
  enum class phase : std::uint8_t { header, holders, keys };

  void begin_round();
  bool reads_lines() const noexcept;
  unit_number unit_of(const open_key& key) const noexcept;
  void take_header(const unit_words& words);
  void take_holders(std::span<const unit_words> arrived);
  void take_keys(std::span<const unit_words> arrived);
  void begin_keys();
  void remember(open_key& key) const;
  void keep_lines() const;
  void take(open_key& key, const unit_words& words) const;
  static void take_remembered(open_key& key, const unit_words& words);
  static void take_line(open_key& key, const unit_words& words);
  void take_record(open_key& key, unit_words words) const;
  static bool has_holder(const open_key& key, const shard_holder& holder) noexcept;
  static void follow_next_place(open_key& key);
  static void leave_line(open_key& key);
  static void begin_again(open_key& key);
  void finish();

  const asking how_;
  const memory lines_;
  known_shard_ptr known_;
  std::vector<open_key> keys_;
  std::vector<unit_number> units_;
  shard_header fresh_; ///< A header whose holders are being READ.
  phase phase_ = phase::header;
  bool with_header_ = false; ///< The header is the first unit of the round.
  state state_ = state::reading;
  int rounds_ = 0;
  std::uint64_t reads_ = 0;
};

} // namespace peercache::directory
