#include "python/page_rows.hpp"

namespace peercache::python {

page_rows::page_rows(std::vector<std::uint64_t> firsts, std::vector<std::uint64_t> steps,
                     std::uint64_t page_tokens, std::uint64_t pages)
    : firsts_(std::move(firsts)), steps_(std::move(steps)), page_tokens_(page_tokens),
      pages_(pages) {
  if (firsts_.empty() || firsts_.size() != steps_.size() || page_tokens_ == 0)
    throw py::value_error("rows of pages have a first address and a step for each part, and "
                          "pages have at least one token");
}

std::optional<std::uint64_t> page_rows::page_at(const std::uint64_t* tokens) const noexcept {
  if (tokens[0] % page_tokens_ != 0 || tokens[0] / page_tokens_ >= pages_)
    return std::nullopt;
  for (std::uint64_t i = 1; i < page_tokens_; ++i)
    if (tokens[i] != tokens[0] + i)
      return std::nullopt;
  return tokens[0] / page_tokens_;
}

std::optional<std::vector<std::uint64_t>> page_rows::addresses(std::uint64_t indices,
                                                               std::size_t pages) const {
  const auto* tokens =
      reinterpret_cast<const std::uint64_t*>(indices); // NOLINT(performance-no-int-to-ptr)
  std::vector<std::uint64_t> places;
  places.reserve(pages * firsts_.size());
  for (std::size_t i = 0; i < pages; ++i) {
    const auto page = page_at(tokens + i * page_tokens_);
    if (!page)
      return std::nullopt;
    for (std::size_t part = 0; part < firsts_.size(); ++part)
      places.push_back(firsts_[part] + *page * steps_[part]);
  }
  return places;
}

} // namespace peercache::python
