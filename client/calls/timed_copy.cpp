#include "client/calls/timed_copy.hpp"

#include "common/assert.hpp"
#include "common/copy.hpp"
#include "common/interruption.hpp"

#include <algorithm>

namespace peercache::client {

timed_copy::timed_copy(deadline until, bool digest, clock now) : until_(until), now_(now) {
  if (digest)
    stream_.emplace();
}

bool timed_copy::copy(std::span<std::byte> to, std::span<const std::byte> from) noexcept {
  PEERCACHE_ASSERT(to.size() >= from.size());
  while (!from.empty()) {
    if (since_look_ == look_bytes) {
      if (now_() >= until_ || interruption::look())
        return false;
      since_look_ = 0;
    }
    const auto bytes = std::min(from.size(), look_bytes - since_look_);
    copy_part(to.first(bytes), from.first(bytes), stream_ ? &*stream_ : nullptr);
    to = to.subspan(bytes);
    from = from.subspan(bytes);
    since_look_ += bytes;
  }
  return true;
}

} // namespace peercache::client
