#pragma once

#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "directory/digest.hpp"
#include "directory/page_location.hpp"
#include "directory/shard_layout.hpp"
#include "directory/shard_memory.hpp"
#include "directory/shard_search.hpp"
#include "directory/wire.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace peercache::directory {

/// The result of publishing one record, a byte in the answer to a publish batch; the numbers are
/// part of the wire format.
enum class publish_outcome : std::uint8_t {
  accepted = 0, ///< Recorded, or recorded before with the same content.
  /// Nothing is stored: other members within reach have the page in memory, with this length (one
  /// such member suffices with `if_absent`, as many as a key may have with `always`); or the key
  /// has no room for one more mirror or page on disk.
  duplicate = 1,
  stale = 2,          ///< A newer fact about the same process's page is known.
  refused = 3,        ///< A limit was reached, or the location makes no sense.
  unknown_holder = 4, ///< The location's incarnation is not a member in this shard's view.
  /// The publisher knows a later view than this node: publish again when this node has that view.
  behind = 5,
};

/// A shard of the map from keys to locations.
///
/// A key has at most one location per incarnation, and at most `locations_per_key_max` in all,
/// where memory displaces disk: a page in a pool is recorded, or its producer is told that enough
/// other copies are known. A process's facts about a key are ordered by (generation, memory before
/// disk): a late message never replaces or removes a newer fact. (A page that goes to disk keeps
/// its generation, so of two facts with one generation that of the disk is the later one.)
///
/// The records lie in memory that others read without asking this object (directory/
/// shard_layout.hpp).
///
/// Threads: the owner serializes all calls; `reader` and `forbid_remote_reads` any. Time and I/O:
/// none. Memory: 1 KiB per member with records; 64 bytes per location, and an index of 64 bytes per
/// line of 7 places that are 40 % to 80 % full. Former indices stay, since somebody may still read
/// them: they are together as large as the current one. That makes 87 to 110 bytes per location.
/// Records never move. Errors: outcomes; only lack of memory throws. Invariants: 1. for each (key,
/// incarnation) the stored (generation, tier) never decreases while the location exists; 2. each
/// record's incarnation is a member, or one that is gone and may come back (`follow`), whose
/// records nobody sees; 3. every key in the index has a record.
class shard {
public:
  /// @param locations_max records beyond this number are refused
  /// @param file in which the memory lies (`shard_memory`)
  explicit shard(std::size_t locations_max = 64u << 20, int file = -1);

  /// Records one location. Before the first `set_members` nobody is a member, and every publish is
  /// answered with `unknown_holder`.
  publish_outcome publish(const page_key& key, const page_location& location, publish_mode mode);

  /// Writes the locations of `key` to `out`, memory before disk; returns how many (at most
  /// out.size()).
  std::size_t lookup(const page_key& key, std::span<page_location> out) const;

  /// A search in this shard's memory, for any thread, as long as the shard lives and is not moved.
  shard_search<mapped_shard> reader() const noexcept {
    return shard_search(mapped_shard(memory_.base()));
  }
  /// Tells readers on other hosts by which view the shard answers; zero: they have to ask the node.
  void set_view(const view_number& by);
  /// Lets readers on other hosts ask the node, from now on, or read again. `forbid_remote_reads`:
  /// any thread.
  void forbid_remote_reads() noexcept;
  void allow_remote_reads() noexcept;
  /// The memory that readers on other hosts read.
  shard_memory& memory() noexcept { return memory_; }

  /// Forgets `holder`'s location of `key` unless the location is a newer fact than (`gen`,
  /// `where`).
  bool withdraw(const page_key& key, const incarnation& holder, generation gen,
                tier where = tier::memory);

  /// Sets the members of the cluster. Forgets the records of everyone else and refuses their
  /// publishes from now on. Walks all records, but only when a member with records is gone. Returns
  /// how many records were forgotten. @param forgotten hears the key of each of them @pre at most
  /// `members_max`, all different.
  std::size_t set_members(std::span<const incarnation> members,
                          const std::function<void(const page_key&)>& forgotten = nullptr);

  /// Sets the members of the cluster as `set_members` does, but only hides the records of everyone
  /// else until `forget`. A hidden record is told to nobody, keeps no put from being recorded,
  /// and makes room for others of its key first; it counts in `locations_max`, and can be
  /// withdrawn. When the holder is a member again, its records can be found again: views of two
  /// parts of the cluster may follow one another here, and a holder that has not seen the view
  /// without it does not publish again.
  /// @pre as `set_members`
  void follow(std::span<const incarnation> members);
  /// What one slice of a walk has forgotten, and where the next one begins.
  struct slice {
    std::size_t gone = 0;   ///< Records that were hidden.
    std::size_t others = 0; ///< Records that were to be forgotten for their keys.
    std::uint32_t next = 0; ///< Place of the next slice; 0: this was the last one.
  };
  /// Forgets, of the records at up to `places` places from place `from` on (0: the first), those
  /// that are hidden, and those of the keys for which `keep` is false; null: all are kept. The
  /// shard may change between two slices. @param gone hears the key of each hidden record
  /// @pre places > 0
  slice forget(std::uint32_t from, std::uint32_t places,
               const std::function<bool(const page_key&)>& keep = nullptr,
               const std::function<void(const page_key&)>& gone = nullptr);

  /// Sets the members that this process cannot reach now; all other members count as within reach.
  /// Readers are still told of pages at members out of reach, because a reader may reach them, but
  /// such pages make no put of another member a duplicate.
  void set_out_of_reach(std::span<const incarnation> members);

  /// Whether publishing this many records may take memory for more records, or for a larger index,
  /// which is made in one go.
  bool may_grow_by(std::size_t records) const noexcept;

  /// Units that the memory of a shard of this many records can have.
  static std::uint64_t units_for(std::size_t locations) noexcept;

  /// Forgets all keys for which `keep` is false; `keep` is called at least once per key. Returns
  /// the number of forgotten locations.
  std::size_t retain(const std::function<bool(const page_key&)>& keep);

  /// Visits the records at up to `places` places from place `from` on (0: the first); returns the
  /// place to go on at, 0 at the end. In a walk of several calls, a record that exists from the
  /// first call to the last is visited once.
  std::uint32_t walk(std::uint32_t from, std::uint32_t places,
                     const std::function<void(const page_key&, const page_location&)>& show) const;

  /// Returns the digests over the records of `holder`; null when it has none. Valid until the next
  /// change of the shard.
  const holder_digest* digest_of(const incarnation& holder) const noexcept;

  std::size_t keys() const noexcept { return keys_; }
  std::size_t locations() const noexcept { return locations_; }
  /// Bytes of all memory that the shard holds, index and free records included.
  std::size_t bytes() const noexcept;

private:
  using holder_index = std::uint16_t;
  static constexpr std::size_t records_per_chunk = 4096;
  /// No shard has more locations than this, because units have 32-bit numbers.
  static constexpr std::size_t locations_possible = std::size_t{1} << 30;
  static_assert(limits::members_max * 2 < no_holder, "old and new members fit beside each other");

  /// Where the index names the first record of a key.
  struct place {
    unit_number line = no_unit;
    std::size_t word = 0;
  };

  /// A member, a gone member whose records are hidden, or a free place (`incarnation{}`).
  struct holder_entry {
    incarnation inc;
    node_id node; ///< The holder's node; set by the holder's first record.
    std::uint64_t records = 0;
    /// Digests over the holder's records; null before the holder's first record.
    std::unique_ptr<holder_digest> digest;
    bool out_of_reach = false;
    bool gone = false; ///< The holder is no longer a member; its records are hidden.
  };

  /// While an object of this class lives, readers of a line's records read again.
  class line_change;
  /// While an object of this class lives, all readers read again.
  class header_change;

  shard_record at(unit_number record) const noexcept;
  page_key key_at(unit_number record) const noexcept;
  unit_words load(unit_number unit) const noexcept;
  const incarnation& process_of(holder_index holder) const noexcept;
  void put(unit_number unit, const page_key& key, const shard_record& record) noexcept;
  std::uint64_t word(unit_number unit, std::size_t word) const noexcept;
  void set_word(unit_number unit, std::size_t word, std::uint64_t value,
                std::memory_order order = std::memory_order_relaxed) noexcept;

  std::optional<place> find_place(const page_key& key, std::uint32_t hash) const noexcept;
  unit_number first_at(const std::optional<place>& at) const noexcept;
  void set_first(const place& at, std::uint32_t hash, unit_number first) noexcept;
  void insert_place(const shard_header& index, std::uint32_t hash, unit_number first) noexcept;
  void erase_place(const place& at, std::uint32_t hash) noexcept;
  void grow_index();
  void store_header() noexcept;
  void store_holder(holder_index holder) noexcept;
  void store_holders();
  void make_memory();
  void make_room_for_key();
  unit_number allocate(std::uint64_t units);

  range_digest& digest_for(const page_key& key, holder_index holder) noexcept;
  holder_index find_holder(const incarnation& inc) const noexcept;
  holder_index add_holder(const incarnation& inc);
  void remove_holder(holder_index holder);
  void remove_gone_holders();

  publish_outcome update(const page_key& key, unit_number unit, unit_number line,
                         const page_location& location, bool other_in_memory,
                         publish_mode mode) noexcept;
  publish_outcome add(const page_key& key, std::uint32_t hash, std::optional<place> at,
                      holder_index holder, const page_location& location);
  bool within_reach_in_memory(const shard_record& rec) const noexcept;
  bool hidden(const shard_record& rec) const noexcept { return holders_[rec.holder].gone; }
  page_location location_of(const shard_record& rec) const noexcept;
  publish_outcome make_room(unit_number first, const page_location& wanted) noexcept;
  unit_number unit_of(std::uint32_t made) const noexcept;
  unit_number take_record();
  void give_record(unit_number unit) noexcept;
  void unlink(unit_number target) noexcept;
  template <class Drop>
  std::size_t drop_records(Drop drop);
  std::uint32_t end_of_slice(std::uint32_t from, std::uint32_t places) const noexcept;

  std::size_t locations_max_;
  std::size_t keys_ = 0;
  std::size_t locations_ = 0;

  shard_memory memory_;
  shard_header header_; ///< The header that readers find in the memory.
  std::uint32_t holders_room_ = 0;

  std::vector<unit_number> chunks_; ///< The first unit of each chunk of records.
  std::uint32_t records_made_ = 0;  ///< Records that were used at least once.
  unit_number free_head_ = no_unit;

  std::vector<holder_entry> holders_;
  std::vector<holder_index> holders_free_;
  std::unordered_map<incarnation, holder_index> holder_indices_;
};

} // namespace peercache::directory
