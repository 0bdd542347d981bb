#include "handoff/source_role.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

namespace peercache::handoff {
namespace {

error sizes_differ(std::string_view what, std::uint32_t source, std::uint32_t destination) {
  return {errc::incompatible, "prefill has " + std::to_string(source) + " and decode " +
                                  std::to_string(destination) + " " + std::string(what)};
}

std::string place_of(const worker_ranks& ranks) {
  return "tp " + std::to_string(ranks.tp) + " of " + std::to_string(ranks.tp_size) + ", pp " +
         std::to_string(ranks.pp) + " of " + std::to_string(ranks.pp_size);
}

error no_partners(const worker_ranks& source, const worker_ranks& destination) {
  return {errc::invalid_argument, "prefill's worker (" + place_of(source) +
                                      ") has nothing for decode's (" + place_of(destination) + ")"};
}

auto sizes_of(const source_place& of) noexcept {
  return std::tuple(of.ranks.tp_size, of.ranks.pp_size, of.ranks.cp_size, of.all_cp_ranks_send);
}

bool sends(const source_place& of) noexcept {
  return of.all_cp_ranks_send || of.ranks.cp == 0;
}

/// How many workers of the prefill engine that `source` belongs to send to `destination`.
std::size_t senders_for(const source_place& source, const worker_ranks& destination) noexcept {
  const auto& from = source.ranks;
  return std::size_t{std::max(1u, from.tp_size / destination.tp_size)} *
         (destination.pp_size == 1 ? from.pp_size : 1) *
         (source.all_cp_ranks_send ? from.cp_size : 1);
}

result<void> check_sizes(const worker_ranks& source, const worker_ranks& destination) {
  if (source.tp_size % destination.tp_size != 0 && destination.tp_size % source.tp_size != 0)
    return sizes_differ("tensor parallel ranks, and neither divides the other", source.tp_size,
                        destination.tp_size);
  if (destination.pp_size != 1 && destination.pp_size != source.pp_size)
    return sizes_differ("pipeline stages; decode must have as many or one", source.pp_size,
                        destination.pp_size);
  if (destination.cp_size != 1)
    return sizes_differ("context parallel ranks; decode must have one", source.cp_size,
                        destination.cp_size);
  return {};
}

bool are_partners(const worker_ranks& source, const worker_ranks& destination) noexcept {
  const auto p = source.tp_size;
  const auto d = destination.tp_size;
  const bool tp =
      p >= d ? source.tp / (p / d) == destination.tp : destination.tp / (d / p) == source.tp;
  const bool pp = destination.pp_size == 1 || source.pp == destination.pp;
  return tp && pp;
}

/// Whether no lower tensor parallel rank of prefill that serves this destination holds the same KV
/// heads.
bool is_first_with_its_heads(const kv_layout& source, const worker_ranks& destination) noexcept {
  const auto per_head = std::max(1u, source.ranks.tp_size / std::max(1u, source.kv_heads));
  const auto before = source.ranks.tp - 1;
  return source.ranks.tp == destination.tp * (source.ranks.tp_size / destination.tp_size) ||
         before / per_head != source.ranks.tp / per_head;
}

} // namespace

result<source_role> role_of(const kv_layout& source, const kv_layout& destination) {
  const auto& from = source.ranks;
  const auto& to = destination.ranks;
  if (auto good = check_sizes(from, to); !good)
    return good.error();
  if (!are_partners(from, to))
    return no_partners(from, to);
  const bool leads = from.tp_size <= to.tp_size || from.tp == to.tp * (from.tp_size / to.tp_size);
  auto has = [&source](bool shared) {
    return std::any_of(source.states.begin(), source.states.end(), [shared](const auto& states) {
      return (states.type == state_type::mamba) == shared;
    });
  };
  const bool first_cp = from.cp == 0;
  source_role role;
  role.kv = (first_cp || source.all_cp_ranks_send) &&
            (leads || (!source.mla && is_first_with_its_heads(source, to)));
  role.shared_states = first_cp && has(true);
  role.whole_states = first_cp && leads && has(false);
  role.aux = first_cp && leads && (to.pp_size != 1 || from.pp + 1 == from.pp_size);
  return role;
}

result<void> check_sources(std::span<const source_place> sources, const worker_ranks& destination) {
  if (sources.empty())
    return {errc::invalid_argument, "the room has no prefill worker"};
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> seen;
  for (const auto& each : sources) {
    if (sizes_of(each) != sizes_of(sources.front()))
      return {errc::invalid_argument, "the room's prefill workers are of different engines"};
    if (!seen.emplace(each.ranks.tp, each.ranks.pp, each.ranks.cp).second)
      return {errc::invalid_argument,
              "the room has prefill's worker (" + place_of(each.ranks) + ") twice"};
  }
  const auto sending =
      static_cast<std::size_t>(std::count_if(sources.begin(), sources.end(), sends));
  const auto wanted = senders_for(sources.front(), destination);
  if (sending != wanted)
    return {errc::invalid_argument, "the room has " + std::to_string(sending) + " of " +
                                        std::to_string(wanted) + " prefill workers for decode's (" +
                                        place_of(destination) + ")"};
  return {};
}

std::uint32_t receivers_of(const worker_ranks& source, const worker_ranks& destination) noexcept {
  return std::max(1u, destination.tp_size / source.tp_size);
}

item_share share_of(std::uint32_t count, std::uint32_t rank, std::uint32_t ranks) noexcept {
  PEERCACHE_ASSERT(rank < ranks);
  const auto each = count / ranks;
  const auto longer = count % ranks;
  return {rank * each + std::min(rank, longer), each + (rank < longer ? 1 : 0)};
}

} // namespace peercache::handoff
