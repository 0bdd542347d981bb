#pragma once

#include "client/cache_client.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace peercache::python {

/// The results of the pages of one call, in their order. Immutable.
class page_results {
public:
  explicit page_results(std::vector<client::page_result> pages) : pages_(std::move(pages)) {}

  std::size_t size() const noexcept { return pages_.size(); }
  const std::vector<client::page_result>& pages() const noexcept { return pages_; }

  /// How many pages are successes from the first one on, up to the first page that is not.
  std::size_t leading_run() const noexcept {
    auto end = std::find_if(pages_.begin(), pages_.end(),
                            [](const auto& page) { return !is_success(page.status); });
    return static_cast<std::size_t>(end - pages_.begin());
  }

  std::uint64_t success_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (const auto& page : pages_)
      bytes += is_success(page.status) ? page.length_bytes : 0;
    return bytes;
  }

private:
  std::vector<client::page_result> pages_;
};

} // namespace peercache::python
