#include "actors/overlap.hpp"

#include "common/assert.hpp"
#include "net/sha256.hpp"

#include <algorithm>
#include <bit>

namespace peercache::actors {

void page_holders::add(node_id node, std::uint8_t tier) noexcept {
  for (std::size_t i = 0; i < count; ++i)
    if (each[i].node == node) {
      each[i].tiers |= tier;
      return;
    }
  PEERCACHE_ASSERT(count < each.size());
  each[count++] = {node, tier};
}

std::uint8_t page_holders::tiers_of(node_id node) const noexcept {
  for (std::size_t i = 0; i < count; ++i)
    if (each[i].node == node)
      return each[i].tiers;
  return 0;
}

namespace {

/// A node's run while blocks are walked: in which tiers it has had all blocks so far.
struct overlap_run {
  node_overlap found;
  bool memory = true;
  bool disk = true;
  bool any = true;

  void take(std::span<const page_holders> block) noexcept {
    for (const auto& page : block) {
      const auto tiers = page.tiers_of(found.node);
      memory = memory && (tiers & page_holders::in_memory) != 0;
      disk = disk && (tiers & page_holders::on_disk) != 0;
      any = any && tiers != 0;
    }
    found.memory += memory;
    found.disk += disk;
    found.longest += any;
  }
};

} // namespace

std::vector<node_overlap> overlaps_of(std::span<const page_holders> holders, std::uint32_t spaces) {
  PEERCACHE_ASSERT(spaces > 0 && holders.size() % spaces == 0);
  std::vector<node_overlap> all;
  if (holders.empty())
    return all;
  std::vector<overlap_run> runs;
  for (std::size_t i = 0; i < holders[0].count; ++i)
    runs.push_back({.found = {.node = holders[0].each[i].node}});
  for (auto rest = holders; !rest.empty() && !runs.empty(); rest = rest.subspan(spaces)) {
    for (auto& run : runs)
      run.take(rest.first(spaces));
    const auto ended =
        std::stable_partition(runs.begin(), runs.end(), [](const auto& run) { return run.any; });
    for (auto run = ended; run != runs.end(); ++run)
      if (run->found.longest > 0)
        all.push_back(run->found);
    runs.erase(ended, runs.end());
  }
  for (const auto& run : runs)
    all.push_back(run.found);
  return all;
}

std::vector<std::string> sglang_page_hashes(std::span<const std::uint32_t> tokens,
                                            std::uint32_t page_tokens) {
  static_assert(std::endian::native == std::endian::little, "tokens are digested as they lie");
  constexpr std::string_view digits = "0123456789abcdef";
  std::vector<std::string> hashes;
  net::sha256 maker;
  net::sha256::digest last;
  for (; tokens.size() >= page_tokens; tokens = tokens.subspan(page_tokens)) {
    if (!hashes.empty())
      maker.add(last);
    const auto page = std::as_bytes(tokens.first(page_tokens));
    maker.add({reinterpret_cast<const std::uint8_t*>(page.data()), page.size()});
    last = maker.finish();
    auto& text = hashes.emplace_back();
    for (const auto byte : last) {
      text.push_back(digits[byte >> 4]);
      text.push_back(digits[byte & 15]);
    }
  }
  return hashes;
}

} // namespace peercache::actors
