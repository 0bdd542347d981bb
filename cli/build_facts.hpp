#pragma once

#include <span>
#include <string_view>

namespace peercache::cli {

/// A name and what it stands for, such as a library and its version.
struct named_text {
  std::string_view name;
  std::string_view text;
};

/// What this program was made of. The source is written by cmake/write_build_facts.cmake.
struct build_facts {
  std::string_view commit; ///< Commit of the sources, in hex digits; empty where git knows none.
  std::span<const named_text> formats;   ///< Formats of wire, shared memory and disk.
  std::span<const named_text> libraries; ///< Libraries that the program was built with.
};

build_facts facts_of_build() noexcept;

} // namespace peercache::cli
