#pragma once

#include "client/client_impl.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace peercache::client {

/// What the removal of a page from several holders comes to: a holder that could not be asked may
/// still have it, so its reason wins; `hit` when one had it; else `not_found`.
/// @param so_far pending: nobody was asked
/// @param said by the next holder; anything but `hit` and `not_found` is a reason
page_status join_removals(page_status so_far, page_status said) noexcept;

/// One `remove`: asks the directory who has the pages, and each holder to give them up. Threads:
/// one object per call.
class remove_call {
public:
  remove_call(cache_client::impl& client, std::span<const page_key> keys,
              std::span<page_result> results, deadline until);
  void run();

private:
  /// Asks one holder for all keys whose records name it.
  void ask(const actors::peer& holder);
  /// A record of a page that its holder has not is out of date.
  /// @param statuses what the holder of the keys at `indices` said, one byte each
  void take(const actors::peer& holder, const std::vector<std::size_t>& indices,
            std::string_view statuses);
  void settle(std::size_t index, page_status said) noexcept;

  cache_client::impl& client_;
  std::span<const page_key> keys_;
  std::span<page_result> results_;
  const deadline until_;
  std::vector<lookup_answer> answers_;
};

} // namespace peercache::client
