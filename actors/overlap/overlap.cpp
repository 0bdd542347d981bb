#include "actors/overlap/overlap.hpp"

#include "common/assert.hpp"
#include "net/sha256.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <utility>

namespace peercache::actors {

namespace {

constexpr std::uint32_t block_tokens_max = 1u << 16;

} // namespace

std::optional<std::string> overlap_size_fault(std::uint64_t block_tokens, std::size_t spaces,
                                              std::size_t blocks) {
  if (block_tokens == 0 || block_tokens > block_tokens_max)
    return fmt::format("block_size: a number from 1 to {} is needed", block_tokens_max);
  if (spaces == 0)
    return "namespaces: a list of key spaces is needed, each a list of texts, as the engine logs "
           "them";
  if (spaces > overlap_spaces_max)
    return fmt::format("more than {} key spaces", overlap_spaces_max);
  if (blocks > overlap_question::keys_max / spaces)
    return fmt::format("{} blocks of {} key spaces: a query has {} keys at most", blocks, spaces,
                       overlap_question::keys_max);
  return std::nullopt;
}

void add_block(overlap_question& question, const std::vector<key_space>& spaces,
               std::string_view hash) {
  for (const auto& space : spaces)
    question.keys.push_back(space.key_of(hash));
}

result<overlap_question> question_of(const overlap_query& query) {
  const auto blocks = query.by_tokens && query.block_tokens > 0
                          ? query.tokens.size() / query.block_tokens
                          : query.hashes.size();
  if (auto fault = overlap_size_fault(query.block_tokens, query.spaces.size(), blocks))
    return {errc::invalid_argument, *std::move(fault)};
  std::vector<key_space> spaces;
  for (const auto& fields : query.spaces) {
    if (fields.size() > overlap_fields_max)
      return {errc::invalid_argument,
              fmt::format("a key space of more than {} fields", overlap_fields_max)};
    const std::vector<std::string_view> views(fields.begin(), fields.end());
    spaces.emplace_back(views);
  }
  overlap_question question;
  question.spaces = static_cast<std::uint32_t>(spaces.size());
  question.block_tokens = query.block_tokens;
  question.node = query.node;
  question.keys.reserve(blocks * spaces.size());
  for (const auto& hash :
       query.by_tokens ? sglang_page_hashes(query.tokens, query.block_tokens) : query.hashes)
    add_block(question, spaces, hash);
  return question;
}

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
    bool all = true;
    for (const auto& page : block) {
      const auto tiers = page.tiers_of(found.node);
      memory = memory && (tiers & page_holders::in_memory) != 0;
      disk = disk && (tiers & page_holders::on_disk) != 0;
      all = all && tiers != 0;
    }
    any = any && (all || found.longest < found.gpu);
    found.memory += memory;
    found.disk += disk;
    found.longest += any;
  }
};

/// The runs of all nodes that have the first block, before the first step.
std::vector<overlap_run> runs_of(const page_holders& first, std::span<const gpu_overlap> gpu) {
  std::vector<overlap_run> runs;
  for (std::size_t i = 0; i < first.count; ++i)
    runs.push_back({.found = {.node = first.each[i].node}});
  for (const auto& each : gpu) {
    if (each.run.blocks == 0)
      continue;
    auto run = std::find_if(runs.begin(), runs.end(),
                            [&each](const auto& known) { return known.found.node == each.node; });
    if (run == runs.end())
      run = runs.insert(run, {.found = {.node = each.node}});
    run->found.gpu = each.run.blocks;
    run->found.gpu_ranks = each.run.ranks;
  }
  return runs;
}

} // namespace

std::vector<node_overlap> overlaps_of(std::span<const page_holders> holders, std::uint32_t spaces,
                                      std::span<const gpu_overlap> gpu) {
  PEERCACHE_ASSERT(spaces > 0 && holders.size() % spaces == 0);
  std::vector<node_overlap> all;
  if (holders.empty())
    return all;
  auto runs = runs_of(holders[0], gpu);
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

std::vector<overlap_match> matches_of(const overlap_question& asked,
                                      std::span<const node_overlap> found,
                                      const discovery::view& view) {
  std::vector<overlap_match> matches;
  for (const auto& each : found) {
    const auto* member = view.find(each.node);
    if (member == nullptr || (!asked.node.empty() && member->name != asked.node))
      continue;
    auto& match = matches.emplace_back();
    match.node = member->name;
    match.longest = each.longest * asked.block_tokens;
    match.gpu = each.gpu * asked.block_tokens;
    match.memory = each.memory * asked.block_tokens;
    match.disk = each.disk * asked.block_tokens;
    for (const auto& [rank, blocks] : each.gpu_ranks)
      match.gpu_by_rank[rank] = std::uint64_t{blocks} * asked.block_tokens;
  }
  return matches;
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
