#pragma once

#include "common/result.hpp"
#include "directory/digest.hpp"
#include "directory/shard.hpp"

#include <cstdint>
#include <string>
#include <string_view>

/// The messages by which a producer finds out which facts (records) of its own pages a shard has,
/// little endian (`wire_version`):
///
///   comparison        offset bytes            list request        offset bytes
///     incarnation          0    16              incarnation            0    16
///     64 digests          16  1024              ranges, a bit each    16     8
///       (sum 8, count 8)                        place to start at     24     4
///                                               reserved, zero        28     4
///   answer to a list request: the place to go on at (4; 0: that was all), reserved (4), then
///   withdraw records (directory/wire.hpp): the facts as the shard has them.
namespace peercache::directory {

std::string comparison_of(const incarnation& holder, const holder_digest& digest);
/// Returns the ranges, a bit each, in which the shard has other facts about the process than the
/// comparison says. Errors: `invalid_argument`.
result<std::uint64_t> compare_digests(const shard& source, std::string_view comparison);

struct list_request {
  incarnation holder;
  std::uint64_t ranges = 0;
  std::uint32_t place = 0;
};
std::string encode(const list_request& request);
/// Returns some of the facts in these ranges: no more than `batch_pages_max`, from no more of the
/// shard than takes about a millisecond to walk. Errors: `invalid_argument`.
result<std::string> list_records(const shard& source, std::string_view request);

/// The parts of an answer to a list request.
struct listed_records {
  std::uint32_t next_place = 0;
  std::string_view records; ///< Withdraw records, for a withdraw_reader; a view into the answer.
};
result<listed_records> split_list(std::string_view answer);

} // namespace peercache::directory
