#pragma once

#include "client/handoff/worker_options.hpp"
#include "common/result.hpp"
#include "engine_rank.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace peercache::handoff_stress {

std::unique_ptr<engine_rank> make_prefill_rank(const handoff_plan& plan, handoff_board& board,
                                               std::uint32_t rank, std::uint64_t begun);
std::unique_ptr<engine_rank> make_decode_rank(const handoff_plan& plan, handoff_board& board,
                                              std::uint32_t rank, std::uint64_t begun);

inline client::worker_options options_of(const handoff_plan& plan) {
  client::worker_options options;
  options.rails.mode = plan.verbs ? rdma::plane_mode::verbs : rdma::plane_mode::tcp;
  options.rails.windows = plan.windows;
  return options;
}

/// Returns the started worker; if starting failed, prints why and ends the process.
template <class Worker>
std::unique_ptr<Worker> started(result<std::unique_ptr<Worker>> made) {
  if (made)
    return std::move(*made);
  std::fprintf(stderr, "stress: no worker: %s\n", made.error().message.c_str());
  std::_Exit(3);
}

} // namespace peercache::handoff_stress
