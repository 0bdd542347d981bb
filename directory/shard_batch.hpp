#pragma once

#include "common/result.hpp"
#include "directory/shard.hpp"

#include <cstdint>
#include <string>
#include <string_view>

/// A shard's operations over whole batches, as they come from and go onto the wire
/// (directory/wire.hpp). A malformed batch is an error (`invalid_argument`) and changes nothing.
/// One allocation a batch: the answer.
namespace peercache::directory {

/// One `publish_outcome` byte a record.
result<std::string> publish_batch(shard& target, std::string_view batch);

/// How many records were there with that generation, and are forgotten.
result<std::uint64_t> withdraw_batch(shard& target, std::string_view batch);

/// The locations of each key, for `answer_reader`.
result<std::string> lookup_batch(const shard& source, std::string_view batch);

} // namespace peercache::directory
