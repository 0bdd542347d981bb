#pragma once

#include <string_view>

namespace peercache::metrics {

/// The page at `/`, its style and its script. The script shows whatever /status.json says (nested
/// objects and lists become tables), so that a new field needs no change of the page.
/// Threads: constant data.
std::string_view status_page_html() noexcept;
std::string_view status_page_css() noexcept;
std::string_view status_page_script() noexcept;

} // namespace peercache::metrics
