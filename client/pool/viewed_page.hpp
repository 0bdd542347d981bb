#pragma once

#include "client/pool/own_pool.hpp"
#include "common/forks.hpp"
#include "common/page_key.hpp"
#include "common/result.hpp"

#include <chrono>
#include <memory>

namespace peercache::client {

/// The place of a `page_view`, and the hold on its page. Threads: those of the `page_view`.
struct viewed_page {
  own_pool_ptr pool;
  page_key key; ///< The page's key, with its space's epoch of the moment when the page was found.
  directory::page_location at;
  storage::holder_tag holder{}; ///< The name of the hold, if `held`.
  bool held = false;
  home_process home;

  /// Finds the page in this pool and holds it for `hold`, if that is above zero. With `verify` all
  /// its bytes are compared with its checksum. Errors: `not_found` when the pool has no such page,
  /// or has just given it up; `io_failed` when the bytes have another checksum.
  static result<std::unique_ptr<viewed_page>> find(const own_pool_ptr& pool, const page_key& key,
                                                   std::chrono::milliseconds hold,
                                                   storage::holder_tag holder, bool verify);

  bool intact() const noexcept;
  /// Ends the hold, if any.
  void release() noexcept;
};

} // namespace peercache::client
