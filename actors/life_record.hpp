#pragma once

#include "common/byte_codec.hpp"
#include "common/ids.hpp"

#include <map>
#include <string>

namespace peercache::actors {

/// What a process leaves to the next process of its node, beside its pages, and tells other nodes:
/// from it they see whether spaces may have been cleared without the process.
///
/// A clear is certain without nodes that left in good order. Such a node remembers the members that
/// it left behind, which may have cleared a space since. A node that crashed left nobody behind: it
/// is missing to the others, and their clears are not certain then.
struct life_record {
  /// Shared by all nodes that have exchanged their knowledge: a node that has caught up and has the
  /// same lineage knows every clear that was certain among them. Null until this node has caught
  /// up.
  incarnation lineage;
  /// The newest process of this node that had heard of every clear that it could have missed
  /// ("caught up", docs/flows.md); null when there was none.
  incarnation process;
  /// Names of the nodes that were left behind, by process. A null process stands for nodes that are
  /// not known.
  std::map<incarnation, std::string> left_behind;

  bool operator==(const life_record&) const = default;

  /// Merges another memory of the same node into this one.
  void join(const life_record& other);
  void join_lineage(const incarnation& other);
  /// Returns the names of `left_behind` as "a, b", in alphabetical order.
  std::string names() const;
};

/// Returns the record to use when the real one cannot be read, or has no room: some unknown node
/// was left behind.
life_record record_of_unknown();

/// Encodes a record; cleared_spaces.cpp's `encoding_version` covers the format:
///
///     lineage 16, process 16, u32 count, count × (process 16, u8 length, name)
std::string encode_record(const life_record& record);
/// Encodes a record in no more than `bytes_max` bytes: when the names do not all fit, one unknown
/// process stands for all of them. @pre a record with one unknown process fits
std::string encode_record(const life_record& record, std::size_t bytes_max);
/// Reads a record and leaves `in` behind it; `in` is not `ok` when there is no record.
life_record read_record(byte_reader& in);

} // namespace peercache::actors
