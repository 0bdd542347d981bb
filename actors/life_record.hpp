#pragma once

#include "common/ids.hpp"
#include "discovery/byte_codec.hpp"

#include <map>
#include <string>

namespace peercache::actors {

/// What a node says of its last life to the next one, beside the pages that outlive it, and to
/// others: whether spaces may have been cleared since without it.
///
/// A clear is certain without nodes that left in good order. Such a node remembers whom it left
/// behind: those may have cleared a space since. Who crashed is missing to the others, whose clears
/// are not certain then, so it left nobody behind.
struct life_record {
  /// Shared by all nodes that have told each other what they know: whoever has caught up and has
  /// the same one knows every clear that was certain among them. Null until this node has caught
  /// up.
  incarnation lineage;
  /// The last process of this node that had caught up; null when none had.
  incarnation process;
  /// Names by process. A null process stands for some that are not known.
  std::map<incarnation, std::string> left_behind;

  bool operator==(const life_record&) const = default;

  /// Adds another memory of the same node.
  void join(const life_record& other);
  void join_lineage(const incarnation& other);
  /// "a, b", in alphabetical order.
  std::string names() const;
};

/// Stands for a record that cannot be read, or does not fit.
life_record record_of_unknown();

/// The bytes, which are covered by the `encoding_version` of cleared_spaces.cpp:
///
///     lineage 16, process 16, u32 count, count × (process 16, u8 length, name)
std::string encode_record(const life_record& record);
/// Encodes in no more than `bytes_max`: names that do not fit become one unknown process.
std::string encode_record(const life_record& record, std::size_t bytes_max);
/// Leaves the reader at what follows; not `ok` when the bytes are none.
life_record read_record(discovery::byte_reader& in);

} // namespace peercache::actors
