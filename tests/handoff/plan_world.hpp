#pragma once

#include "handoff/kv_layout.hpp"
#include "handoff/transfer_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace peercache::handoff::test {

/// The shape of a random model and of the two engines that run it.
struct model_shape {
  explicit model_shape(std::mt19937_64& random);

  std::uint32_t p = 1, d = 1; ///< Tensor parallel ranks of prefill and of decode.
  std::uint32_t source_stages = 1, destination_stages = 1;
  std::uint32_t cp = 1;
  bool all_cp = false;
  bool mla = false;
  std::uint32_t heads = 1;
  std::uint32_t head_bytes = 1; ///< Bytes of one head of one token; with MLA, bytes of one token.
  std::uint32_t page_tokens = 1;
  std::uint32_t layers = 1;
  bool layer_ids = false;
  bool source_draft = false, destination_draft = false;
  std::vector<state_type> states;
  std::vector<std::uint32_t>
      groups; ///< Groups of rows of a mamba state; the layout leaves out a single group.
  std::uint32_t outer = 1, unit_bytes = 1;

  std::string text() const;
};

/// The memory items of a room on one side, by kind; they lie scattered over the worker's memory.
struct room_items {
  std::uint32_t prefix_pages = 0;
  std::vector<std::uint32_t> pages; ///< The room's pages that follow the prefix.
  std::vector<state_items> states;
  std::uint32_t aux_row = 0;
};

/// Memory of one tensor.
struct tensor_memory {
  std::span<std::byte> bytes;  ///< The memory as the test reads and writes it.
  std::uint64_t address = 0;   ///< Address that the worker tells its peers, for example on a GPU.
  std::shared_ptr<void> owner; ///< Keeps the memory alive.
};
using memory_maker = std::function<tensor_memory(std::size_t bytes)>;
tensor_memory heap_memory(std::size_t bytes);

/// One worker with real memory. `fill` writes the bytes that the model computes into the items of a
/// room; `check` compares them, and checks how often each byte was written. Both go byte by byte
/// through layers, tokens and heads, so they share no logic of slices and strides with the code
/// under test.
class fake_worker {
public:
  static constexpr std::uint32_t items = 40;

  /// @param make makes the memory of KV and states; aux rows are on the heap
  fake_worker(const model_shape& shape, worker_ranks ranks, bool is_source,
              memory_maker make = heap_memory);

  const kv_layout& layout() const noexcept { return layout_; }
  void fill(const room_items& room);
  /// Copies the bytes of one piece, as a data plane would.
  void receive(const piece& read, const std::vector<page_part>& parts);
  /// Returns what is wrong, or nothing. Draft buffers that prefill lacks stay unwritten.
  std::string check(const room_items& room) const;
  /// Like `check`, for memory that a real data plane has written to: compares each byte of the
  /// room, and expects that all other bytes are untouched.
  std::string check_bytes(const room_items& room) const;

private:
  struct tensor {
    tensor_memory memory;
    std::span<std::byte> bytes; ///< A copy of `memory.bytes`, which views the tensor.
    std::vector<std::uint8_t> writes;
    std::uint32_t item_bytes = 0;
  };
  /// Calls `visit(tensor, offset, value)` for each byte of the room, with the value that the model
  /// computes.
  template <class Visit>
  void visit_room(const room_items& room, Visit visit) const;
  template <class Visit>
  void visit_kv(const room_items& room, Visit visit) const;
  template <class Visit>
  void visit_mamba(std::uint32_t item, const std::vector<std::size_t>& tensors, Visit visit) const;

  kv_buffer add_tensor(const memory_maker& make, std::uint32_t item_bytes, std::uint32_t layer);
  void add_kv();
  void add_states();
  std::uint32_t head_of(std::uint32_t local) const noexcept;
  std::vector<std::uint32_t> stage_layers() const;

  const model_shape shape_;
  const memory_maker make_;
  bool is_source_;
  std::uint32_t tp_size_;
  std::uint32_t local_heads_;
  kv_layout layout_;
  std::vector<std::unique_ptr<tensor>> tensors_;
  struct kv_tensor {
    std::size_t tensor;
    std::uint32_t layer;
    std::uint32_t kind; ///< 0: K or MLA's; 1: V; 2 and 3: K and V of the draft model.
  };
  std::vector<kv_tensor> kv_;
  std::vector<std::vector<std::size_t>> states_;
  std::vector<std::vector<std::uint32_t>> state_names_;
  std::vector<std::size_t> aux_;
};

/// Returns the items of a room of `pages` pages, `window` of them in sliding windows. Items are at
/// random places, some of them adjacent.
room_items random_items(const model_shape& shape, std::mt19937_64& random, std::uint32_t prefix,
                        std::uint32_t pages, std::uint32_t window, std::uint32_t ring,
                        bool compressed);

} // namespace peercache::handoff::test
