#include "client/lookup/location_choice.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <span>
#include <tuple>

namespace peercache::client {

const directory::page_location& choose_location(const lookup_answer& answer,
                                                const reader_place& reader) {
  PEERCACHE_ASSERT(answer.count > 0);
  const auto rank = [&](const directory::page_location& at) {
    const bool elsewhere = at.holder != reader.own;
    const auto spread = (at.holder.low ^ reader.own_node.value) * 0x9e3779b97f4a7c15ull;
    const bool away = elsewhere && reader.is_away(at);
    const bool other = reader.length_bytes != 0 && at.length_bytes != reader.length_bytes;
    return std::tuple(other, at.holder == reader.avoided, away, at.where, elsewhere, !at.mirrored,
                      elsewhere ? reader.outstanding(at.holder) : 0, spread);
  };
  const auto all = std::span(answer.locations).first(answer.count);
  return *std::min_element(all.begin(), all.end(), [&](const auto& one, const auto& other) {
    return rank(one) < rank(other);
  });
}

} // namespace peercache::client
