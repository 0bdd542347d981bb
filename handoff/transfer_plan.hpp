#pragma once

#include "common/result.hpp"
#include "handoff/kv_layout.hpp"
#include "handoff/row_copies.hpp"
#include "handoff/source_role.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace peercache::handoff {

/// Items of one component of states that belong to one request.
struct state_items {
  /// The first item's place in the sequence, in pages; 0 for components that are not pages.
  std::uint32_t first_page = 0;
  std::vector<std::uint32_t> items;
  bool operator==(const state_items&) const = default;
};

/// A part of a room's pages, as a prefill worker offers it.
struct offered_pages {
  std::uint32_t first_page = 0; ///< Place in the sequence of the first page.
  std::vector<std::uint32_t> pages;
  /// Whether no further offer follows, so that states and aux row are complete as well. The last
  /// offer may have no pages.
  bool last = false;
  /// States of each component in the last offer; other offers have none.
  std::vector<state_items> states;
  std::uint32_t aux_row = 0; ///< Row of the aux buffers; unused unless `last`.
  bool operator==(const offered_pages&) const = default;
};

/// Pages, states and aux row that decode has allocated for a room.
struct allocated_pages {
  /// Pages of the sequence before the first allocated page, which decode has already.
  std::uint32_t prefix_pages = 0;
  std::vector<std::uint32_t> pages;
  std::vector<state_items> states;
  std::uint32_t aux_row = 0;
  bool operator==(const allocated_pages&) const = default;
};

class transfer_plan;

/// Gives the pieces of one offer, one after the other: an offer of 8,192 scattered pages in 128
/// buffers takes memory only for its runs. Threads: a value. Lifetime: within that of its plan.
class piece_reader {
public:
  /// Returns the next piece and appends its parts to `parts`; nothing when no piece is left.
  std::optional<piece> next(std::vector<page_part>& parts);
  bool finished() const noexcept { return cutter_.finished() && at_ == copies_.size(); }
  /// Bytes of all pieces, including those that `next` has returned.
  std::uint64_t bytes() const noexcept { return bytes_; }

private:
  friend class transfer_plan;
  struct copies {
    const std::vector<item_stripe>* stripes;
    std::vector<item_run> runs;
  };
  void add(const std::vector<item_stripe>& stripes, std::vector<item_run> runs);

  std::vector<copies> copies_;
  /// Indices of the copy, stripe and run to go on with when `cutter_` is finished.
  std::size_t at_ = 0, stripe_ = 0, run_ = 0;
  piece_cutter cutter_;
  std::uint64_t bytes_ = 0;
};

/// Which bytes of one prefill worker go where in one decode worker: it knows pairs of buffers,
/// slices of heads and states where the numbers of tensor parallel ranks differ, pipeline stages,
/// and shares of context parallel ranks. Made once for two workers; `pieces` applies it to each
/// offer.
///
/// An offer fits exactly, or is refused: nothing is ever cut. Pages of KV have places in the
/// sequence, which must be allocated; the last offer ends with the last allocated page. States:
///
/// - `mamba`: one item on either side.
/// - `swa`, `dsa`, `minimax_index_k`: by place. Each allocated page must be offered, and no offered
///   page may lie behind the last allocated one. Pages before the first allocated one are not asked
///   for: decode's window may begin later.
/// - `swa_ring`, `c128_state`: equally many on both sides; `c128_state` has at most one.
///
/// Each byte of what a worker's role (`source_role`) covers is written by exactly one piece, over
/// all offers of a room.
///
/// Threads: immutable once made. No I/O, no clock. Errors: `create` says why two workers do not fit
/// (`incompatible`), `pieces` why an offer does not (`invalid_argument`); items beyond a buffer's
/// end are refused on either side, so pieces stay within the buffers of the two layouts.
class transfer_plan {
public:
  /// @pre both layouts are checked
  static result<transfer_plan> create(const kv_layout& source, const kv_layout& destination);

  const source_role& role() const noexcept { return role_; }
  /// Decode workers that join a room at the source, including the destination.
  std::uint32_t receivers() const noexcept { return receivers_; }
  result<piece_reader> pieces(const offered_pages& offer, const allocated_pages& room) const;

private:
  /// Stripes of buffers whose items have the same indices.
  struct stripes_of_items {
    std::vector<item_stripe> stripes;
    std::uint64_t source_items = ~std::uint64_t{0};
    std::uint64_t destination_items = ~std::uint64_t{0};

    void add(const kv_buffer& source, const kv_buffer& destination, item_stripe stripe);
    void limit_to(const kv_buffer& source, const kv_buffer& destination) noexcept;
    result<std::vector<item_run>> runs(std::span<const std::uint32_t> source,
                                       std::span<const std::uint32_t> destination) const;
  };
  struct component {
    state_type type = state_type::mamba;
    bool taken = false; ///< Whether the source's role covers the component.
    stripes_of_items items;
  };

  transfer_plan() = default;
  result<void> add_kv(const kv_layout& source, const kv_layout& destination);
  result<void> add_states(const kv_layout& source, const kv_layout& destination);
  result<void> add_aux(const kv_layout& source, const kv_layout& destination);
  result<void> add_pages(piece_reader& reader, const offered_pages& offer,
                         const allocated_pages& room) const;
  result<void> add_last(piece_reader& reader, const offered_pages& offer,
                        const allocated_pages& room) const;

  source_role role_;
  std::uint32_t receivers_ = 1;
  /// Number of the source's share among the shares of a room's pages.
  std::uint32_t share_rank_ = 0;
  std::uint32_t shares_ = 1;
  stripes_of_items kv_;
  std::vector<component> states_;
  stripes_of_items aux_;
};

} // namespace peercache::handoff
