#include "client/calls/hold_plan.hpp"

#include "common/assert.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>

namespace peercache::client {

void hold_plan::add(std::uint32_t index, const directory::page_location& at) {
  auto found = std::find_if(shares_.begin(), shares_.end(),
                            [&](const share& each) { return each.holder == at.holder; });
  if (found == shares_.end())
    found = shares_.insert(shares_.end(), {at.holder, {}, {}});
  link::append_record(found->request, link::used_page{.gen = at.gen, .slot = at.slot});
  found->indices.push_back(index);
  PEERCACHE_ASSERT(found->request.size() == found->indices.size() * sizeof(link::used_page));
}

storage::hold_outcome hold_plan::outcome(std::string_view answer, std::size_t i) noexcept {
  if (i >= answer.size() || static_cast<unsigned char>(answer[i]) >= storage::hold_outcome_count)
    return storage::hold_outcome::gone;
  return static_cast<storage::hold_outcome>(answer[i]);
}

} // namespace peercache::client
