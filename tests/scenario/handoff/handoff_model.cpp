#include "tests/scenario/handoff/handoff_model.hpp"

namespace peercache::handoff::test {

small_model::small_model(std::mt19937_64& random) {
  const auto chance = [&random](unsigned one_in) { return random() % one_in == 0; };
  mla = chance(4);
  prefill_tp = chance(2) ? 1 : 2;
  decode_tp = chance(2) ? 1 : 2;
  if (chance(4)) {
    prefill_stages = 2;
    decode_stages = chance(2) ? 1 : 2;
  } else if (chance(4)) {
    prefill_cp = 2;
    all_cp_ranks_send = chance(2);
  }
  mamba = chance(3);
  swa = chance(3) && (mla || prefill_tp == decode_tp);
}

std::uint32_t small_model::workers(bool prefill) const noexcept {
  return prefill ? prefill_tp * prefill_stages * prefill_cp : decode_tp * decode_stages;
}

worker_ranks small_model::ranks_of(std::uint32_t worker, bool prefill) const noexcept {
  worker_ranks ranks;
  ranks.tp_size = prefill ? prefill_tp : decode_tp;
  ranks.pp_size = prefill ? prefill_stages : decode_stages;
  ranks.cp_size = prefill ? prefill_cp : 1;
  ranks.tp = worker % ranks.tp_size;
  ranks.pp = worker / ranks.tp_size % ranks.pp_size;
  ranks.cp = worker / ranks.tp_size / ranks.pp_size;
  return ranks;
}

bool small_model::are_partners(std::uint32_t prefill, std::uint32_t decode) const noexcept {
  const auto from = ranks_of(prefill, true);
  const auto to = ranks_of(decode, false);
  const bool same_heads = prefill_tp >= decode_tp ? from.tp / (prefill_tp / decode_tp) == to.tp
                                                  : to.tp / (decode_tp / prefill_tp) == from.tp;
  return same_heads && (decode_stages == 1 || from.pp == to.pp);
}

bool small_model::computes(std::uint32_t worker, std::uint32_t nth,
                           std::uint32_t pages) const noexcept {
  const auto cp = ranks_of(worker, true).cp;
  if (!all_cp_ranks_send)
    return cp == 0;
  // If the number of pages is odd, the first context-parallel rank has one more than the second.
  const auto of_first = (pages + 1) / 2;
  return (cp == 0) == (nth < of_first);
}

} // namespace peercache::handoff::test
