#include "handoff/source_role.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <string>

namespace peercache::handoff {
namespace {

error sizes_differ(std::string_view what, std::uint32_t source, std::uint32_t destination) {
  return {errc::incompatible, "prefill has " + std::to_string(source) + " and decode " +
                                  std::to_string(destination) + " " + std::string(what)};
}

error no_partners(const worker_ranks& source, const worker_ranks& destination) {
  auto place = [](const worker_ranks& of) {
    return "tp " + std::to_string(of.tp) + " of " + std::to_string(of.tp_size) + ", pp " +
           std::to_string(of.pp) + " of " + std::to_string(of.pp_size);
  };
  return {errc::invalid_argument, "prefill's worker (" + place(source) +
                                      ") has nothing for decode's (" + place(destination) + ")"};
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

/// Whether no tensor parallel rank before this one has the same KV heads for this destination.
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
