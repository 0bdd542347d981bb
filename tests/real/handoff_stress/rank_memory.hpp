#pragma once

#include "handoff/kv_layout.hpp"
#include "handoff/transfer_plan.hpp"
#include "handoff_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace peercache::handoff_stress {

/// The memory items of a room at one rank, by kind.
struct room_items {
  std::uint32_t prefix_pages = 0;
  std::vector<std::uint32_t> pages;
  std::vector<handoff::state_items> states;
  std::uint32_t aux_row = 0;
};

/// The memory of one rank, in which every word says whose it is: request, layer, place in the
/// sequence, head. Items that are given back are overwritten at once with words of no request, and
/// are the next to be taken. Threads: the owner's; devices and page servers access lent items at
/// any time.
class rank_memory {
public:
  rank_memory(const handoff_plan& plan, std::uint32_t rank, bool prefill);
  ~rank_memory();
  rank_memory(const rank_memory&) = delete;
  rank_memory& operator=(const rank_memory&) = delete;

  const handoff::kv_layout& layout() const noexcept { return layout_; }

  /// Takes items for this room; nothing when too few are free.
  std::optional<room_items> take(const room_plan& room);
  /// Writes what the model of request `serial` computes into the pages [first, first + count) of
  /// the room.
  void fill(const room_items& items, std::uint64_t serial, std::uint32_t first,
            std::uint32_t count);
  /// Writes the states and the aux row, which the model completes with the last pages.
  void fill_last(const room_items& items, std::uint64_t serial);
  /// Returns how many items have a byte that the request `serial` did not compute.
  std::uint64_t wrong_items(const room_items& items, std::uint64_t serial) const;
  /// Overwrites the items and makes them free.
  void give_back(const room_items& items);
  /// Returns how many items were found to have been written to while they were free, since the last
  /// call.
  std::uint64_t take_late_writes() noexcept { return std::exchange(late_writes_, 0); }

private:
  /// One buffer, and which rows and units of the whole model each of its items consists of.
  struct tensor {
    std::span<std::byte> bytes;
    std::uint32_t item_bytes = 0;
    std::uint64_t name = 0;  ///< Identifies layer and kind; equal at prefill and decode.
    std::uint32_t rows = 1;  ///< Tokens of a page, or rows of a state.
    std::uint32_t units = 1; ///< Heads of a token, or parts of a row, at this rank.
    /// For each unit at this rank: its number in the whole model.
    std::vector<std::uint32_t> unit_names;

    std::byte* item(std::uint32_t index) const noexcept {
      return bytes.data() + std::size_t{index} * item_bytes;
    }
  };
  /// A range of item numbers with the tensors that use it: KV pages, items of one state component,
  /// or aux rows.
  struct item_space {
    std::vector<tensor> tensors;
    std::vector<std::uint32_t> free;       ///< Free items; the last one is taken next.
    std::vector<std::uint32_t> given_back; ///< How often each item was given back.
    std::vector<std::uint32_t> take(std::uint32_t count);
  };

  handoff::kv_buffer add_tensor(item_space& space, tensor made, std::uint32_t items,
                                std::uint32_t layer);
  void add_kv(const handoff_plan& plan);
  void add_states(const handoff_plan& plan);
  void add_mamba(const handoff_plan& plan, item_space& space, handoff::state_component& component);
  void add_aux();
  void make_free(item_space& space, std::uint32_t items);
  void scramble(item_space& space, std::uint32_t item);
  bool is_nobodys(const item_space& space, std::uint32_t item) const;
  template <class Visit>
  static void visit(const item_space& space, std::uint32_t item, std::uint64_t serial,
                    std::uint64_t place, Visit visit);
  void check_taken(item_space& space, std::span<const std::uint32_t> items);

  handoff::kv_layout layout_;
  std::span<std::byte> mapped_;
  std::size_t used_ = 0;
  item_space kv_, aux_;
  std::vector<item_space> states_;
  std::uint64_t late_writes_ = 0;
};

} // namespace peercache::handoff_stress
