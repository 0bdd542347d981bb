#include "actors/overlap/overlap_search.hpp"

#include "directory/wire.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

namespace peercache::actors {

overlap_search::overlap_search(overlap_question question, node_id own)
    : question_(std::move(question)), own_(own), holders_(question_.keys.size()),
      asked_(question_.keys.size()), open_(question_.keys.size()) {
  std::iota(open_.begin(), open_.end(), 0u);
}

std::vector<overlap_search::share> overlap_search::next(const discovery::hash_ring& ring,
                                                        std::uint32_t replicas,
                                                        const can_ask& linked) {
  std::vector<share> shares;
  std::unordered_map<node_id, std::size_t> filling; // The share of each owner that has room.
  std::array<node_id, discovery::hash_ring::replicas_max> found;
  const auto wanted = std::min<std::size_t>(replicas, found.size());
  for (const auto index : std::exchange(open_, {})) {
    const auto& key = question_.keys[index];
    const auto owners = std::span(found).first(ring.owners(key, std::span(found).first(wanted)));
    if (const auto own = std::find(owners.begin(), owners.end(), own_); own != owners.end())
      std::rotate(owners.begin(), own, own + 1);
    auto& asked = asked_[index];
    while (asked < std::min<std::size_t>(owners.size(), owners_max) && !linked(owners[asked]))
      ++asked;
    if (asked >= std::min<std::size_t>(owners.size(), owners_max))
      continue;
    const auto owner = owners[asked++];
    auto [at, is_new] = filling.try_emplace(owner, shares.size());
    if (!is_new && shares[at->second].indices.size() == limits::batch_pages_max) {
      at->second = shares.size();
      is_new = true;
    }
    if (is_new)
      shares.push_back({owner, {}, {}});
    directory::append_lookup(shares[at->second].request, key);
    shares[at->second].indices.push_back(index);
  }
  return shares;
}

void overlap_search::answered(const share& asked, std::string_view answer,
                              const is_member& in_view) {
  directory::answer_reader reader(answer);
  std::array<directory::page_location, limits::locations_per_key_max> found;
  std::size_t count = 0, taken = 0;
  for (const auto index : asked.indices) {
    if (!reader.next(found, count))
      break;
    ++taken;
    if (count == 0)
      open_.push_back(index);
    auto& holders = holders_[index];
    for (const auto& location : std::span(found).first(count))
      if (in_view(location))
        holders.add(location.node, location.where == directory::tier::memory
                                       ? page_holders::in_memory
                                       : page_holders::on_disk);
  }
  open_.insert(open_.end(), asked.indices.begin() + static_cast<std::ptrdiff_t>(taken),
               asked.indices.end());
}

void overlap_search::failed(const share& asked) {
  open_.insert(open_.end(), asked.indices.begin(), asked.indices.end());
}

void overlap_search::on_gpu(node_id node, link::gpu_run run) {
  run.blocks = static_cast<std::uint32_t>(std::min<std::size_t>(run.blocks, question_.blocks()));
  std::erase_if(run.ranks, [&run](const auto& rank) { return rank.second > run.blocks; });
  auto known = std::find_if(gpu_.begin(), gpu_.end(),
                            [node](const auto& each) { return each.node == node; });
  if (known == gpu_.end())
    known = gpu_.insert(known, {node, {}});
  known->run = std::move(run);
}

} // namespace peercache::actors
