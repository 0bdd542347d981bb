#pragma once

#include <span>
#include <string_view>

namespace peercache::cli {

/// A name and what it stands for, such as a library and its version.
struct named_text {
  std::string_view name;
  std::string_view text;
};

/// The sources and libraries that this program was built from, and its formats.
/// cmake/write_build_facts.cmake writes the source file that defines the values.
struct build_facts {
  std::string_view commit; ///< Commit of the sources, in hex digits; empty where git knows none.
  std::span<const named_text> formats;   ///< Formats of wire, shared memory and disk.
  std::span<const named_text> libraries; ///< Libraries that the program was built with.
};

build_facts facts_of_build() noexcept;

} // namespace peercache::cli
