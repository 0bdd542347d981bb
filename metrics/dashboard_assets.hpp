#pragma once

#include <span>
#include <string_view>

namespace peercache::metrics {

/// A file of the page that a node serves; metrics/dashboard/ has the sources of all these files.
struct dashboard_asset {
  std::string_view path; ///< Path at which the file is served: "/", "/dashboard.js".
  std::string_view type; ///< The media type.
  std::string_view gzipped;
};

/// All files of the page. The build compresses them and writes this function. Threads: constant
/// data.
std::span<const dashboard_asset> dashboard_assets() noexcept;

} // namespace peercache::metrics
