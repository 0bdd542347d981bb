#include "client/members/promote_plan.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "directory/wire.hpp"
#include "link/protocol/disk_wire.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace peercache::client {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

promote_plan::share& promote_plan::share_of(const incarnation& holder, std::uint32_t length_bytes) {
  const auto last = std::find_if(shares_.rbegin(), shares_.rend(),
                                 [&](const auto& share) { return share.holder == holder; });
  const bool known = last != shares_.rend();
  if (known && (ask_ == questions::one || last->bytes < last->bytes_max))
    return *last;
  share next{holder, 0, 0, length_bytes, {}, {}};
  if (known) {
    next.before = last->before + 1;
    next.bytes_max = 2 * std::max(last->bytes_max, last->bytes);
    if (next.before < small_questions)
      next.bytes_max = std::min(next.bytes_max, small_bytes_max);
  }
  return shares_.emplace_back(std::move(next));
}

void promote_plan::add(std::uint32_t index, const page_key& key,
                       const directory::page_location& at) {
  auto& share = share_of(at.holder, at.length_bytes);
  share.bytes += at.length_bytes;
  link::append_record(share.request, link::promoted_page{key, at.length_bytes, 0});
  share.indices.push_back(index);
  PEERCACHE_ASSERT(share.request.size() == share.indices.size() * sizeof(link::promoted_page));
}

milliseconds promote_plan::patience(milliseconds left) {
  return left - std::clamp(left / 8, 1ms, 50ms);
}

std::vector<promote_plan::place> promote_plan::places(const share& asked, std::string_view answer) {
  std::vector<place> places;
  places.reserve(asked.indices.size());
  directory::answer_reader reader{answer};
  std::array<directory::page_location, limits::locations_per_key_max> found;
  for (const auto index : asked.indices) {
    std::size_t count = 0;
    const bool there = reader.next(found, count) && count != 0 && found[0].holder == asked.holder &&
                       found[0].where == directory::tier::memory;
    places.push_back({index, there ? std::optional(found[0]) : std::nullopt});
  }
  return places;
}

} // namespace peercache::client
