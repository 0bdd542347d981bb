#include "common/ids.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"

#include <cstdio>
#include <sys/random.h>

namespace peercache {

node_id node_id_of(std::string_view name) noexcept {
  return {checksum_of({reinterpret_cast<const std::byte*>(name.data()), name.size()})};
}

incarnation incarnation::random() {
  incarnation drawn;
  do {
    auto got = getrandom(&drawn, sizeof drawn, 0);
    PEERCACHE_ASSERT(got == sizeof drawn);
  } while (drawn == incarnation{});
  return drawn;
}

std::string to_string(node_id id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id.value));
  return text;
}

std::string to_string(const incarnation& value) {
  return to_string(node_id{value.high}) + to_string(node_id{value.low});
}

} // namespace peercache
