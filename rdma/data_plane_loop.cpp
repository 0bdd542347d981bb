#include "rdma/data_plane_loop.hpp"

#include "net/futex.hpp"

namespace peercache::rdma {

data_plane_loop::data_plane_loop(data_plane& plane, const data_plane_loop_options& opts)
    : plane_(plane), options_(opts), ring_(plane, opts.ring_capacity) {}

void data_plane_loop::run(const std::atomic<bool>& stop) {
  const auto spin = net::spinning_helps() ? options_.spin : clock::duration::zero();
  clock::time_point now{};
  clock::time_point spin_until{};
  std::uint32_t turns_to_clock = 0;
  while (!stop.load(std::memory_order_acquire)) {
    const bool took = ring_.drain();
    if (took || turns_to_clock == 0) {
      now = clock::now();
      turns_to_clock = turns_per_clock;
    }
    --turns_to_clock;
    const bool moved = plane_.poll(now);
    if (took || moved) {
      spin_until = now + spin;
      turns_to_clock = 0;
    } else if (now < spin_until) {
      net::spin_pause();
    } else if (ring_.prepare_sleep()) {
      plane_.wait(options_.sleep_max);
      ring_.awake();
      turns_to_clock = 0;
    }
  }
  ring_.close();
  plane_.shutdown();
}

} // namespace peercache::rdma
