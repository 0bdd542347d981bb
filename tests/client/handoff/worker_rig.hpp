#pragma once

#include "client/handoff/decode_worker.hpp"
#include "client/handoff/prefill_worker.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace peercache::client::test {

/// Waits until the condition holds. Returns false when it still does not after a long time.
bool eventually(const std::function<bool()>& holds);

/// Memory of a worker with one K and one V buffer and one aux field. `fill` gives all bytes of a
/// page one value (in V with the top bit flipped), by which `has` recognizes it.
class worker_memory {
public:
  static constexpr std::uint32_t pages = 64;
  static constexpr std::uint32_t aux_bytes = 64;

  explicit worker_memory(std::uint32_t page_bytes = 4096, std::string dtype = "bfloat16");

  handoff::kv_layout layout() const;
  void fill(std::uint32_t page, std::uint8_t value);
  void fill_aux(std::uint32_t row, std::uint8_t value);
  bool has(std::uint32_t page, std::uint8_t value) const;
  bool has_aux(std::uint32_t row, std::uint8_t value) const;

private:
  std::uint32_t page_bytes_;
  std::string dtype_;
  std::vector<std::byte> k_, v_, aux_;
};

worker_options tcp_options();

/// A prefill and a decode worker over TCP in this process.
struct worker_pair {
  explicit worker_pair(const worker_options& of_prefill = tcp_options(),
                       const worker_options& of_decode = tcp_options());

  handoff::worker_address address() const { return {"127.0.0.1", prefill->port()}; }
  /// Opens the room at the prefill and the decode worker, and waits until prefill may send.
  void meet(std::uint64_t room, std::vector<std::uint32_t> decode_pages,
            std::uint32_t prefix_pages = 0);
  /// Ends the room of `meet` at both workers.
  void part();

  worker_memory prefill_memory, decode_memory;
  std::unique_ptr<prefill_worker> prefill;
  std::unique_ptr<decode_worker> decode;
  handoff::room_id number;
  std::optional<prefill_room> sending;
  std::optional<room_watch> receiving;
};

} // namespace peercache::client::test
