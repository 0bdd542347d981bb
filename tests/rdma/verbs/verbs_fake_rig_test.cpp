// The verbs rig of tests without devices: two devices of the fake provider.

#include "tests/rdma/verbs/verbs_rig.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"

namespace peercache::rdma {
namespace {

using tests::fake_fabric;
using tests::fake_work;

/// A base class with the fabric, so that it is made before the rig's verbs objects and destroyed
/// after them.
struct fabric_first {
  fabric_first() : fabric(42) {
    fabric.add(tests::roce_device("fake0", 1));
    fabric.add(tests::roce_device("fake1", 2));
    fabric.set_delay(std::chrono::microseconds(5), std::chrono::microseconds(40));
    fabric.set_reorder(true);
  }
  fake_fabric fabric;
};

class fake_verbs_rig final : fabric_first, public verbs_rig {
public:
  explicit fake_verbs_rig(data_service what, verbs_data_plane_options options = {})
      : verbs_rig({"fake0", "fake1",
                   [this](plane_rig& rig) {
                     rig.now += std::chrono::microseconds(10);
                     fabric.advance(std::chrono::microseconds(10));
                   }},
                  std::move(options), what) {
    fabric.before_each([this](const fake_work& work) { before(work); });
    fabric.in_the_middle([this](const fake_work& work) { after(work); });
  }
  ~fake_verbs_rig() override {
    fabric.before_each(nullptr);
    fabric.in_the_middle(nullptr);
  }

private:
  void before(const fake_work& work) {
    if (work.bytes <= sizeof(slot_entry))
      return;
    if (serves == fault::breaks && ++payloads_ == 2)
      fabric.break_device("fake1");
    if (serves == fault::corrupts)
      flip(work.remote_address + 7);
  }
  /// After the READ flips the pool's byte back, so that the reader got a damaged page and the pool
  /// has the right bytes.
  void after(const fake_work& work) {
    if (work.bytes > sizeof(slot_entry) && serves == fault::corrupts)
      flip(work.remote_address + 7);
  }
  static void flip(std::uint64_t address) {
    *reinterpret_cast<std::byte*>(address) ^= std::byte{1};
  }

  int payloads_ = 0;
};

} // namespace

std::unique_ptr<plane_rig> make_verbs_rig(data_service what) {
  return std::make_unique<fake_verbs_rig>(what);
}
std::unique_ptr<plane_rig> make_verbs_tls_rig(data_service what) {
  verbs_data_plane_options options;
  options.tls = rig_certificates::get().client;
  return std::make_unique<fake_verbs_rig>(what, options);
}

std::unique_ptr<plane_rig> make_verbs_windows_rig(data_service what) {
  auto made = std::make_unique<fake_verbs_rig>(what);
  made->windows = true;
  return made;
}

} // namespace peercache::rdma
