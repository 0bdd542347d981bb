#include "handoff/transfer_plan.hpp"

#include "handoff/buffer_pairs.hpp"
#include "handoff/tensor_slices.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace peercache::handoff {
namespace {

error does_not_fit(const std::string& what) {
  return {errc::invalid_argument, "the offer does not fit what decode has allocated: " + what};
}

std::string counts(std::size_t offered, std::size_t allocated) {
  return std::to_string(offered) + " are offered and " + std::to_string(allocated) +
         " are allocated";
}

/// Whether a component of this type consists of pages of the sequence.
bool is_paged(state_type type) noexcept {
  return type == state_type::swa || type == state_type::dsa || type == state_type::minimax_index_k;
}

/// Returns the offered items that go to the allocated items, one to one.
result<std::span<const std::uint32_t>> partners(state_type type, const state_items& offered,
                                                const state_items& allocated) {
  const std::string name = "states " + std::string(to_string(type));
  const auto sizes = name + ": " + counts(offered.items.size(), allocated.items.size());
  if (is_paged(type)) {
    const auto offered_end = offered.first_page + std::uint64_t{offered.items.size()};
    const auto end = allocated.first_page + std::uint64_t{allocated.items.size()};
    if (offered.first_page > allocated.first_page || offered_end != end)
      return does_not_fit(name + ": pages " + std::to_string(offered.first_page) + " to " +
                          std::to_string(offered_end) + " are offered and " +
                          std::to_string(allocated.first_page) + " to " + std::to_string(end) +
                          " are allocated");
    return std::span(offered.items).last(allocated.items.size());
  }
  const std::size_t most = type == state_type::swa_ring ? limits::room_pages_max : 1;
  if (offered.items.size() != allocated.items.size() || offered.items.size() > most ||
      (type == state_type::mamba && offered.items.empty()))
    return does_not_fit(sizes);
  return std::span(offered.items);
}

} // namespace

// -- methods of piece_reader

void piece_reader::add(const std::vector<item_stripe>& stripes, std::vector<item_run> runs) {
  if (stripes.empty() || runs.empty())
    return;
  for (const auto& stripe : stripes)
    for (const auto& run : runs)
      bytes_ += stripe.bytes_of(run);
  copies_.push_back({&stripes, std::move(runs)});
}

std::optional<piece> piece_reader::next(std::vector<page_part>& parts) {
  while (cutter_.finished()) {
    if (at_ == copies_.size())
      return std::nullopt;
    const auto& [stripes, runs] = copies_[at_];
    cutter_ = piece_cutter((*stripes)[stripe_], runs[run_]);
    if (++run_ < runs.size())
      continue;
    run_ = 0;
    if (++stripe_ < stripes->size())
      continue;
    stripe_ = 0;
    ++at_;
  }
  return cutter_.next(parts);
}

// -- methods of transfer_plan

void transfer_plan::stripes_of_items::limit_to(const kv_buffer& source,
                                               const kv_buffer& destination) noexcept {
  source_items = std::min(source_items, source.items());
  destination_items = std::min(destination_items, destination.items());
}

void transfer_plan::stripes_of_items::add(const kv_buffer& source, const kv_buffer& destination,
                                          item_stripe stripe) {
  limit_to(source, destination);
  stripe.source += source.address;
  stripe.destination += destination.address;
  stripes.push_back(stripe);
}

result<std::vector<item_run>>
transfer_plan::stripes_of_items::runs(std::span<const std::uint32_t> source,
                                      std::span<const std::uint32_t> destination) const {
  for (auto item : source)
    if (item >= source_items)
      return does_not_fit("prefill offers item " + std::to_string(item) + " of " +
                          std::to_string(source_items));
  for (auto item : destination)
    if (item >= destination_items)
      return does_not_fit("decode allocated item " + std::to_string(item) + " of " +
                          std::to_string(destination_items));
  return merged_runs(source, destination);
}

result<transfer_plan> transfer_plan::create(const kv_layout& source, const kv_layout& destination) {
  if (auto same = compare(source, destination); !same)
    return same.error();
  auto role = role_of(source, destination);
  if (!role)
    return role.error();
  transfer_plan plan;
  plan.role_ = *role;
  plan.receivers_ = receivers_of(source.ranks, destination.ranks);
  if (source.all_cp_ranks_send) {
    plan.share_rank_ = source.ranks.cp;
    plan.shares_ = source.ranks.cp_size;
  }
  if (auto added = plan.add_kv(source, destination); !added)
    return added.error();
  if (auto added = plan.add_states(source, destination); !added)
    return added.error();
  if (auto added = plan.add_aux(source, destination); !added)
    return added.error();
  return plan;
}

result<void> transfer_plan::add_kv(const kv_layout& source, const kv_layout& destination) {
  auto pairs = pair_kv(source, destination);
  if (!pairs)
    return pairs.error();
  for (auto [from, to] : *pairs) {
    auto stripe = slice_of_heads(source, destination, source.buffers[from].item_bytes,
                                 destination.buffers[to].item_bytes);
    if (!stripe)
      return error{stripe.error().code,
                   "KV buffer " + std::to_string(from) + ": " + stripe.error().message};
    if (role_.kv)
      kv_.add(source.buffers[from], destination.buffers[to], *stripe);
  }
  return {};
}

result<void> transfer_plan::add_states(const kv_layout& source, const kv_layout& destination) {
  for (std::size_t i = 0; i < source.states.size(); ++i) {
    auto pairs = pair_states(source, destination, i);
    if (!pairs)
      return pairs.error();
    component states;
    states.type = source.states[i].type;
    states.taken = states.type == state_type::mamba ? role_.shared_states : role_.whole_states;
    for (auto [from, to] : *pairs) {
      const auto& tensor = source.states[i].tensors[from];
      const auto& other = destination.states[i].tensors[to];
      auto stripes = slices_of_states(source, destination, states.type, tensor, other);
      if (!stripes)
        return error{stripes.error().code, "states " + std::string(to_string(states.type)) +
                                               ", tensor " + std::to_string(from) + ": " +
                                               stripes.error().message};
      for (const auto& stripe : *stripes)
        states.items.add(tensor.buffer, other.buffer, stripe);
    }
    states_.push_back(std::move(states));
  }
  return {};
}

result<void> transfer_plan::add_aux(const kv_layout& source, const kv_layout& destination) {
  for (std::size_t i = 0; i < source.aux.size(); ++i) {
    // `compare` has checked that the items of this aux field are equally long on both sides.
    const auto bytes = source.aux[i].item_bytes;
    aux_.add(source.aux[i], destination.aux[i], whole_items(bytes));
  }
  return {};
}

result<piece_reader> transfer_plan::pieces(const offered_pages& offer,
                                           const allocated_pages& room) const {
  piece_reader reader;
  if (auto fits = add_pages(reader, offer, room); !fits)
    return fits.error();
  if (!offer.last && !offer.states.empty())
    return does_not_fit("states come before the last pages");
  if (offer.last)
    if (auto fits = add_last(reader, offer, room); !fits)
      return fits.error();
  return reader;
}

result<void> transfer_plan::add_pages(piece_reader& reader, const offered_pages& offer,
                                      const allocated_pages& room) const {
  const auto offered_end = offer.first_page + std::uint64_t{offer.pages.size()};
  const auto end = room.prefix_pages + std::uint64_t{room.pages.size()};
  const bool ends_well = offer.last ? offered_end == end : offered_end <= end;
  if (offer.first_page < room.prefix_pages || !ends_well)
    return does_not_fit(
        "pages " + std::to_string(offer.first_page) + " to " + std::to_string(offered_end) +
        (offer.last ? " are offered as the last and " : " are offered and ") +
        std::to_string(room.prefix_pages) + " to " + std::to_string(end) + " are allocated");
  // A rank's share is a share of the room's pages and does not depend on the chunks in which the
  // rank offers its pages.
  const std::uint64_t offset = offer.first_page - room.prefix_pages;
  const auto share = share_of(static_cast<std::uint32_t>(room.pages.size()), share_rank_, shares_);
  const auto first = std::max<std::uint64_t>(offset, share.first);
  const auto behind =
      std::min(offset + offer.pages.size(), std::uint64_t{share.first} + share.count);
  if (first >= behind)
    return {};
  auto runs = kv_.runs(std::span(offer.pages).subspan(first - offset, behind - first),
                       std::span(room.pages).subspan(first, behind - first));
  if (!runs)
    return runs.error();
  reader.add(kv_.stripes, std::move(*runs));
  return {};
}

result<void> transfer_plan::add_last(piece_reader& reader, const offered_pages& offer,
                                     const allocated_pages& room) const {
  if (offer.states.size() != states_.size() || room.states.size() != states_.size())
    return does_not_fit("components of states: " + counts(offer.states.size(), room.states.size()) +
                        " for " + std::to_string(states_.size()));
  for (std::size_t i = 0; i < states_.size(); ++i) {
    auto offered = partners(states_[i].type, offer.states[i], room.states[i]);
    if (!offered)
      return offered.error();
    auto runs = states_[i].items.runs(*offered, room.states[i].items);
    if (!runs)
      return runs.error();
    if (states_[i].taken)
      reader.add(states_[i].items.stripes, std::move(*runs));
  }
  if (!role_.aux || aux_.stripes.empty())
    return {};
  auto row = aux_.runs(std::span(&offer.aux_row, 1), std::span(&room.aux_row, 1));
  if (!row)
    return row.error();
  reader.add(aux_.stripes, std::move(*row));
  return {};
}

} // namespace peercache::handoff
