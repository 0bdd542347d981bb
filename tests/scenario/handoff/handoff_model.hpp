#pragma once

#include "handoff/kv_layout.hpp"

#include <cstdint>
#include <random>

namespace peercache::handoff::test {

/// The model that the prefill and the decode engine run, and how each divides it among its ranks.
/// It has two tokens a page, two heads or MLA, one layer for each of prefill's pipeline stages, and
/// perhaps states of mamba and of a sliding window.
struct small_model {
  static constexpr std::uint32_t page_tokens = 2;
  static constexpr std::uint32_t heads = 2;
  /// Groups of rows of a mamba state; each group has `heads` units.
  static constexpr std::uint32_t mamba_groups = 2;

  /// Draws a random model among those for which `transfer_plan` has a plan.
  explicit small_model(std::mt19937_64& random);

  bool mla = false;
  std::uint32_t prefill_tp = 1, decode_tp = 1;
  std::uint32_t prefill_stages = 1, decode_stages = 1;
  std::uint32_t prefill_cp = 1;
  bool all_cp_ranks_send = false;
  bool mamba = false, swa = false;

  /// Returns how many workers the prefill or the decode engine has: one for each of its ranks.
  std::uint32_t workers(bool prefill) const noexcept;
  worker_ranks ranks_of(std::uint32_t worker, bool prefill) const noexcept;
  /// Whether the worker `prefill` of the prefill engine sends anything to the worker `decode` of
  /// the decode engine.
  bool are_partners(std::uint32_t prefill, std::uint32_t decode) const noexcept;
  /// Whether a worker of prefill computes the page `nth` of a room of `pages` pages.
  bool computes(std::uint32_t worker, std::uint32_t nth, std::uint32_t pages) const noexcept;
};

} // namespace peercache::handoff::test
