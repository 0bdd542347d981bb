#pragma once

#include "python/arguments.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace peercache::python {

/// Where the parts of a pool's pages lie, when they lie in rows: part i of page p begins at
/// firsts[i] + p * steps[i]. A batch takes its addresses from here instead of asking the pool,
/// whose loop in Python would hold the GIL for longer than the rest of the call. Immutable;
/// threads: any.
class page_rows {
public:
  /// Describes a pool of `pages` pages of `page_tokens` tokens each; `steps` has one entry for each
  /// of `firsts`. Errors: py::value_error.
  page_rows(std::vector<std::uint64_t> firsts, std::vector<std::uint64_t> steps,
            std::uint64_t page_tokens, std::uint64_t pages);

  /// The addresses of all parts of `pages` pages, page after page. `indices` is the address of the
  /// slots of all their tokens, 64-bit integers. Nothing when these slots are not whole pages of
  /// the pool, each from its first token on.
  std::optional<std::vector<std::uint64_t>> addresses(std::uint64_t indices,
                                                      std::size_t pages) const;

private:
  /// The page that the slots at `tokens` make up; nothing when they are not a whole page.
  std::optional<std::uint64_t> page_at(const std::uint64_t* tokens) const noexcept;

  std::vector<std::uint64_t> firsts_;
  std::vector<std::uint64_t> steps_;
  std::uint64_t page_tokens_;
  std::uint64_t pages_;
};

} // namespace peercache::python
