#pragma once

#include "common/result.hpp"
#include "directory/shard.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

/// A shard's operations over whole batches in wire format (directory/wire.hpp). A malformed batch
/// is an error (`invalid_argument`) and changes nothing. One allocation per batch: the answer.
namespace peercache::directory {

/// Publishes the batch's records. Returns one `publish_outcome` byte per record.
/// @param is_old says whether a key's page was cleared, so that its record is `stale`; null: none
/// was
result<std::string> publish_batch(shard& target, std::string_view batch,
                                  const std::function<bool(const page_key&)>& is_old = nullptr);

/// Returns the answer while the publisher's view is later than the shard's: `behind` for every
/// record. A view between the two may lack the publishing process: the shard would forget the new
/// records, and the process would not notice.
std::string answer_from_behind(std::string_view publish_batch);

/// Whether the shard does not own some key of the batch. False for a malformed batch.
bool has_foreign_keys(std::string_view publish_batch,
                      const std::function<bool(const page_key&)>& owns);

/// Withdraws the batch's records. Returns how many records were forgotten.
result<std::uint64_t> withdraw_batch(shard& target, std::string_view batch);

/// Tells which keys a shard owns, for its answers about keys without a record.
struct key_ownership {
  std::function<bool(const page_key&)> owns;
  view_number by; ///< Number of the view that `owns` uses.
  /// Whether readers must not find the key although it may have records (its space was cleared);
  /// null: there are no such keys.
  std::function<bool(const page_key&)> is_old = nullptr;
};

/// Returns the locations of each key, for `answer_reader`, and `not_mine` for keys that the shard
/// neither knows nor owns; adds their number to `foreign`. Another thread may change the shard
/// meanwhile: each key's answer was right at one moment of the call. Nothing: the shard changes all
/// the time.
template <class Memory>
std::optional<result<std::string>> lookup_batch(shard_search<Memory> search, std::string_view batch,
                                                const key_ownership& ownership,
                                                std::uint64_t& foreign);

/// Does the same for the shard's owner.
result<std::string> lookup_batch(const shard& source, std::string_view batch,
                                 const key_ownership& ownership, std::uint64_t& foreign);

/// Returns the locations of each key, for `answer_reader`, from a shard that owns every key.
result<std::string> lookup_batch(const shard& source, std::string_view batch);

} // namespace peercache::directory
