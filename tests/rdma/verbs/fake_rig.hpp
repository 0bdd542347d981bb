#pragma once

#include "tests/support/fake_verbs/fake_verbs.hpp"
#include "tests/verbs/rail_pair.hpp"

#include <functional>

namespace peercache::rdma::verbs {

/// A connected reader and server, each on a fake device with memory. Work requests of a test go to
/// the fake provider unchecked.
class fake_rig {
public:
  static constexpr std::size_t bytes = 64 << 10;

  /// Makes both devices on a fabric with this seed; `change` may change each device first.
  explicit fake_rig(std::uint64_t seed = 1,
                    const std::function<void(tests::fake_device&)>& change = {})
      : fabric(seed) {
    for (const auto& [name, host] : {std::pair("fake0", 1), std::pair("fake1", 2)}) {
      tests::fake_device device = tests::roce_device(name, static_cast<std::uint8_t>(host));
      if (change)
        change(device);
      fabric.add(std::move(device));
    }
    reader = must(device::open("fake0", {}));
    server = must(device::open("fake1", {}));
    pool = must(memory_region::register_memory(*server, there, region_use::remote_read));
    target = must(memory_region::register_memory(*reader, here, region_use::local_write));
    pair.emplace(*reader, *server);
  }

  /// A READ of `length` bytes at `offset` of the pool, to the same offset of the target.
  struct request {
    std::uint64_t wr_id = 0;
    std::size_t offset = 0;
    std::size_t length = 64;
    unsigned flags = IBV_SEND_SIGNALED;
    ibv_wr_opcode what = IBV_WR_RDMA_READ;
  };

  /// Posts the requests as one chain. Returns the error (0: none), and the `wr_id` of the first
  /// request that was not accepted.
  std::pair<int, std::optional<std::uint64_t>> post(const std::vector<request>& requests) {
    std::vector<ibv_sge> pieces(requests.size());
    std::vector<ibv_send_wr> chain(requests.size());
    for (std::size_t index = 0; index < requests.size(); ++index) {
      const request& each = requests[index];
      pieces[index] = {target.address() + each.offset, static_cast<std::uint32_t>(each.length),
                       target.local_key()};
      ibv_send_wr& one = chain[index];
      one = {};
      one.wr_id = each.wr_id;
      one.next = index + 1 < chain.size() ? &chain[index + 1] : nullptr;
      one.sg_list = &pieces[index];
      one.num_sge = 1;
      one.opcode = each.what;
      one.send_flags = each.flags;
      one.wr.rdma.remote_addr = pool.address() + each.offset;
      one.wr.rdma.rkey = pool.remote_key();
      if (change)
        change(one);
    }
    ibv_send_wr* bad = nullptr;
    const int error = pair->reader.pair.post(chain.data(), &bad);
    return {error, bad != nullptr ? std::optional(bad->wr_id) : std::nullopt};
  }

  struct completion {
    std::uint64_t wr_id = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
    bool operator==(const completion&) const = default;
  };
  /// Polls and returns all completions that there are now.
  std::vector<completion> completions() {
    std::vector<completion> found;
    ibv_wc done{};
    while (pair->reader.completions.poll({&done, 1}) == 1)
      found.push_back({done.wr_id, done.status});
    return found;
  }
  /// Posts one READ and returns its status. @pre no completion waits to be polled
  ibv_wc_status status_of(const request& one) {
    post({one});
    const auto found = completions();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? IBV_WC_GENERAL_ERR : found[0].status;
  }

  bool arrived(std::size_t offset, std::size_t length) const {
    return std::equal(&here[offset], &here[offset] + length, &there[offset]);
  }

  tests::fake_fabric fabric;
  buffer here = buffer(bytes);
  buffer there = random_bytes(bytes, 7);
  std::unique_ptr<device> reader;
  std::unique_ptr<device> server;
  memory_region pool;
  memory_region target;
  std::optional<rail_pair> pair;
  /// If set: called with each work request before the request is posted, to change it.
  std::function<void(ibv_send_wr&)> change;
};

} // namespace peercache::rdma::verbs
