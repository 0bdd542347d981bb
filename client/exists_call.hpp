#pragma once

#include "client/client_impl.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace peercache::client {

/// One `exists`, which may bring its keys in pieces: pages of this host are found in its pool, the
/// directory is asked for the others. What is on a disk only is brought into memory, best effort.
/// Threads: one object per call.
class exists_call {
public:
  exists_call(cache_client::impl& client, deadline until);

  /// @param own null: no pool of this host is looked into
  /// @pre keys.size() == results.size()
  void run(std::span<const page_key> keys, std::span<page_result> results, const own_pool_ptr& own);

private:
  void find_on_own_host(std::span<const page_key> keys, std::span<page_result> results);
  /// What the directory says of `elsewhere_`, and remembers.
  void take(std::span<const page_key> asked, std::span<page_result> results);

  cache_client::impl& client_;
  const deadline until_;
  directory_lookup lookup_;
  own_pool_ptr own_;                     ///< Of this piece.
  std::vector<std::uint32_t> elsewhere_; ///< Of this piece: keys that are not in the own pool.
  std::vector<lookup_answer> answers_;   ///< Of this piece, as `elsewhere_`.
};

} // namespace peercache::client
