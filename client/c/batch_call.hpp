#pragma once

#include "client/c/peercache.h"
#include "client/cache_client.hpp"

#include <chrono>
#include <cstddef>
#include <vector>

namespace peercache::c_api {

/// A set, get, exists or remove of the C interface, taken out of its caller's arrays.
///
/// Threads: one at a time. Ownership: the results, and the memory that the parts name, stay the
/// caller's and are lent until `run` returns; the arrays of pages and parts are read by `take`.
class batch_call {
public:
  /// Reads and checks a batch. Returns PEERCACHE_OK, or the code of the fault, of which
  /// `peercache_last_error` tells.
  /// @param operation enum peercache_operation
  /// @param default_timeout time of a batch that says PEERCACHE_DEADLINE_DEFAULT
  int take(int operation, const peercache_batch* given, std::chrono::milliseconds default_timeout);

  /// Makes the call, and writes each page's result. Returns PEERCACHE_OK.
  int run(client::cache_client& cache);

private:
  int check(int operation) const;
  int take_page(std::size_t index);
  const peercache_page& page(std::size_t index) const noexcept;
  void give_results() const noexcept;
  /// The pages of a set or get; `Part` is const_part or page_part.
  template <class Page, class Part>
  std::vector<Page> pages_of(const std::vector<Part>& parts) const;

  int operation_ = 0;
  peercache_batch batch_{};
  client::deadline until_{};
  std::vector<page_key> keys_;
  std::vector<std::size_t> first_parts_; ///< Index in `parts_` of each page's first part; at the
                                         ///< end the number of parts.
  std::vector<page_part> parts_;
  std::vector<client::page_result> results_;
};

/// The time at which a call with this deadline ends. @param default_timeout as in
/// `batch_call::take`
client::deadline deadline_in(std::uint32_t deadline_ms,
                             std::chrono::milliseconds default_timeout) noexcept;

/// Returns the client library's form of a key.
page_key key_of(const peercache_key& key) noexcept;

} // namespace peercache::c_api
