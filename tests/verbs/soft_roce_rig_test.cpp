// The rig by which the tests that every data plane must pass run over real verbs: a reader on rxe0,
// a server on rxe1.

#include "tests/rdma/verbs/verbs_rig.hpp"
#include "tests/verbs/failed_work.hpp"
#include "tests/verbs/guest_network.hpp"

#include <iostream>
#include <optional>
#include <set>
#include <utility>

namespace peercache::rdma {
namespace {

/// The rig's clock runs slower than real time by this factor, because the tests' time-outs are made
/// for hardware, and the guest is an emulator on a machine that may be busy.
constexpr int slowness = 20;

class soft_roce_rig final : public verbs_rig {
public:
  explicit soft_roce_rig(data_service what)
      : verbs_rig({"rxe0", "rxe1", [this](plane_rig&) { pass_real_time(); }}, options(), what) {}

  ~soft_roce_rig() override {
    if (testing::Test::HasFailure())
      std::cout << "work requests that failed: " << failed_work(rail->counters) << "\n";
  }

  void serve(test_pool& pool, const incarnation& inc, fault what) override {
    // For `fault::breaks`, packets are delayed so that the server can go away while bytes are on
    // their way.
    slow_.reset();
    if (what == fault::breaks)
      slow_.emplace(1, "delay 200ms");
    verbs_rig::serve(pool, inc, what);
    pass_real_time();
  }

  void place(test_batch& what) override {
    verbs_rig::place(what);
    if (serves != fault::corrupts)
      return;
    for (const auto& page : what.batch.pages)
      if (damaged_.insert(page.slot.value).second)
        (lent != nullptr ? reinterpret_cast<std::byte*>(page.source.address)
                         : memory.page(page.slot))[7] ^= std::byte{1};
  }

  void step() override {
    verbs_rig::step();
    // Lets time pass after the step, too, in which a queue pair can end before the next batch.
    pass_real_time();
    if (serves == fault::breaks && rail->counters.payload_reads.load() != 0)
      stop_serving();
  }

private:
  void pass_real_time() {
    const auto real = clock::now();
    now += (real - std::exchange(real_, real)) / slowness;
  }

  /// Returns options with few READs at a time, because the device transfers some 30 MB/s, and would
  /// take a READ for lost that waits behind 16 MiB of others. The time-out for sending a packet
  /// again is the longest that the options allow: if rxe repeats a READ that was only late, because
  /// the emulator stood still, a later work request may never complete.
  static verbs_data_plane_options options() {
    verbs_data_plane_options made;
    made.send_depth = 16;
    made.outstanding_reads = 2;
    made.path.timeout = 16; // 268 ms.
    made.path.retries = 2;
    return made;
  }

  clock::time_point real_ = clock::now();
  std::optional<slow_link> slow_;
  std::set<std::uint32_t> damaged_;
};

} // namespace

std::unique_ptr<plane_rig> make_verbs_rig(data_service what) {
  return std::make_unique<soft_roce_rig>(what);
}

} // namespace peercache::rdma
