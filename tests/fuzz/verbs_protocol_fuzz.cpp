#include "rdma/verbs/verbs_protocol.hpp"
#include "tests/fuzz/fuzz_input.hpp"

/// Reads any bytes as a rail server's announcement of its memory: each accepted chunk must lie
/// within the announced memory, and its end must not overflow.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace peercache::rdma;
  peercache::fuzz::input in(data, size);
  const auto answer = in.value<verbs_answer>();
  (void)well_formed(in.value<verbs_ready>());
  (void)well_formed(in.value<queue_pair_end>());
  if (well_formed(answer))
    (void)within(in.value<region_chunk>(), answer);
  return 0;
}
