#include "python/token_chain.hpp"

#include <cstring>

namespace peercache::python {

std::vector<std::string> chain_keys(const key_space& space, std::span<const std::uint32_t> tokens,
                                    std::size_t page_tokens) {
  const auto pages = tokens.size() / page_tokens;
  if (pages == 0)
    return {};
  const auto token_bytes = page_tokens * sizeof(std::uint32_t);
  auto last = space.key_of({});
  std::string link(last.bytes.size() + token_bytes, '\0');
  std::vector<std::string> keys;
  keys.reserve(pages);
  for (std::size_t page = 0; page < pages; ++page) {
    std::memcpy(link.data(), last.bytes.data(), last.bytes.size());
    std::memcpy(link.data() + last.bytes.size(), tokens.data() + page * page_tokens, token_bytes);
    last = space.key_of(link);
    keys.push_back(to_string(last));
  }
  return keys;
}

} // namespace peercache::python
