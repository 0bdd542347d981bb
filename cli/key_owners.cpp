#include "cli/key_owners.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace peercache::cli {

key_owners::key_owners(discovery::view view, std::size_t replicas)
    : view_(std::move(view)), ring_(view_.members),
      replicas_(std::min(replicas, discovery::hash_ring::replicas_max)) {}

std::vector<std::string> key_owners::names(const page_key& key) const {
  std::array<node_id, discovery::hash_ring::replicas_max> ids;
  const auto count = ring_.owners(key, std::span(ids).first(replicas_));
  std::vector<std::string> named;
  for (const auto& id : std::span(ids).first(count))
    named.push_back(view_.find(id)->name);
  return named;
}

} // namespace peercache::cli
