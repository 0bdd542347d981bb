#include "common/printable.hpp"

#include <algorithm>

namespace peercache {

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

} // namespace peercache
