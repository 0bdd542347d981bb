#pragma once

#include "client/cache_client.hpp"

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <vector>

namespace peercache::client {

/// Calls of a client whose outcome comes as a future, so that one thread may have many under way.
///
/// Each running call has a thread of this object, made when it is needed first and kept for later
/// calls: a call waits for no other one, and ends by its deadline as the client's own do. A call
/// beyond the limit, or in a forked child, is not made: its future is ready at once, with pages
/// that are `refused` or `closed`.
///
/// Threads: any. Ownership: the client must outlive this object; parts are borrowed until the call
/// has ended, also when its future is destroyed earlier; a future's destructor does not wait. The
/// destructor closes nothing and waits for all running calls, which end by their deadlines.
class async_calls {
public:
  using results = std::vector<page_result>;

  /// @param running_max most calls, and threads, at a time
  explicit async_calls(cache_client& client, std::uint32_t running_max = 64);
  ~async_calls();
  async_calls(const async_calls&) = delete;
  async_calls& operator=(const async_calls&) = delete;

  // Begin the calls of `cache_client` with these names. One result per page, in the pages' order.
  std::future<results> set(std::vector<set_page> pages, std::optional<deadline> until = {});
  std::future<results> get(std::vector<get_page> pages, std::optional<deadline> until = {});
  std::future<results> exists(std::vector<page_key> keys, std::optional<deadline> until = {},
                              const exists_hold& hold = {});
  std::future<results> remove(std::vector<page_key> keys, std::optional<deadline> until = {},
                              remove_scope scope = remove_scope::holders);

private:
  struct in_home;
  std::unique_ptr<in_home> body_;
};

} // namespace peercache::client
