#pragma once

#include "stress_ledger.hpp"
#include "stress_plan.hpp"

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace peercache::stress {

/// One writer or reader with a client of its own, until the ledger says stop.
/// Threads: one, its own. Ownership: its client and one batch's memory; plan and ledger outlive it.
class stress_worker {
public:
  stress_worker(const stress_plan& plan, stress_ledger& ledger, std::uint32_t number,
                std::uint16_t node_port, std::string cluster);

  void write_until_stopped();
  void read_until_stopped();

private:
  static constexpr std::size_t batch_pages_max = 8;

  /// A client, a new one when the old one lost its node; null while the node is down.
  client::cache_client* client();
  void note(std::span<const client::page_result> results);

  void put_some(client::cache_client& client);
  void get_some(client::cache_client& client);
  void remove_some(client::cache_client& client);
  void check(std::uint32_t key, std::size_t index, const client::page_result& result);

  void draw_keys(std::uint32_t recent_percent);
  /// One of the keys that were put lately or, as often, that this reader has read itself: it knows
  /// where those were.
  std::uint32_t draw_recent();
  std::span<std::byte> page(std::size_t index) {
    return {memory_.data() + index * page_stride_, sizes_[index]};
  }
  std::uint64_t draw() { return random_(); }

  const stress_plan& plan_;
  stress_ledger& ledger_;
  std::uint16_t node_port_;
  std::string cluster_;
  std::mt19937_64 random_;
  std::unique_ptr<client::cache_client> client_;
  static constexpr std::size_t known_keys = 512;
  std::vector<std::uint32_t> known_; ///< Hits of this reader.
  std::uint32_t puts_since_flush_ = 0;
  std::uint32_t lost_calls_ = 0; ///< Calls in a row that met no node.
  static constexpr std::size_t page_stride_ = 65536;
  std::vector<std::byte> memory_;
  std::vector<std::uint32_t> drawn_;
  std::vector<std::uint32_t> sizes_;
  std::vector<page_key> keys_;
  std::vector<client::page_result> results_;
};

} // namespace peercache::stress
