#pragma once

#include "config/load.hpp"

#include <string>

namespace peercache::config {

/// The text of `--print-config`: TOML with every option and, behind each value, its origin. As a
/// configuration file it gives the same values again.
std::string render_effective(const loaded_config& loaded);

/// The commented default file, config/peercache.toml: every option with meaning, bounds and
/// default.
std::string render_default_file();

/// The text of docs/configuration.md: how configuration works, and a table of all options.
std::string render_documentation();

/// An option's text in `--help`: meaning, bounds, default.
std::string help_text(const option& opt);

/// The form of an option's value, for help: "SIZE", "true|false", "auto|lru|s3fifo".
std::string form_of(const option& opt);

} // namespace peercache::config
