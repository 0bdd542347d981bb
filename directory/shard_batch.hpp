#pragma once

#include "common/result.hpp"
#include "directory/shard.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

/// A shard's operations over whole batches, as they come from and go onto the wire
/// (directory/wire.hpp). A malformed batch is an error (`invalid_argument`) and changes nothing.
/// One allocation a batch: the answer.
namespace peercache::directory {

/// Publishes the batch's records. Returns one `publish_outcome` byte a record.
result<std::string> publish_batch(shard& target, std::string_view batch);

/// The answer while the publisher's view is later than the shard's: `behind` for every record. The
/// views between may have been without the pages' process, and would make the shard forget what it
/// had just been told, unnoticed by that process.
std::string answer_from_behind(std::string_view publish_batch);

/// Whether one of its keys is not owned. A malformed batch has none.
bool has_foreign_keys(std::string_view publish_batch,
                      const std::function<bool(const page_key&)>& owns);

/// Withdraws the batch's records. Returns how many were there with that generation, and are
/// forgotten.
result<std::uint64_t> withdraw_batch(shard& target, std::string_view batch);

/// The keys that a shard owns, for its answers about keys without a record.
struct key_ownership {
  std::function<bool(const page_key&)> owns;
  view_number by; ///< The view that says so.
  /// Keys that nobody is to find though their records may be there still; null: there are none.
  std::function<bool(const page_key&)> is_old = nullptr;
};

/// The locations of each key, for `answer_reader`; `not_mine` of what it neither knows nor owns,
/// and adds up those in `foreign`.
result<std::string> lookup_batch(const shard& source, std::string_view batch,
                                 const key_ownership& ownership, std::uint64_t& foreign);

/// A look-up in a shard that owns every key.
result<std::string> lookup_batch(const shard& source, std::string_view batch);

} // namespace peercache::directory
