#include "common/printable.hpp"

#include <algorithm>

namespace peercache {

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string peer_text(std::string_view said) {
  return printable(std::string(said.substr(0, peer_text_bytes_max)));
}

} // namespace peercache
