#pragma once

#include "tests/rdma/verbs/verbs_rail_rig.hpp"

namespace peercache::rdma {

inline verbs_server_options with_windows() {
  auto options = rail_options();
  options.windows = true;
  return options;
}

class verbs_windows : public verbs_rail_rig {
protected:
  void TearDown() override {
    server.reset();
    EXPECT_EQ(fabric.objects().windows, 0u);
    EXPECT_EQ(fabric.misuse(), std::vector<std::string>{});
  }
  std::uint64_t bindings() { return fabric.counts("nic0").bindings; }
  /// Whether a reader has been told anything.
  static bool heard(rail_reader& reader) {
    char first;
    return ::recv(reader.peer.fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
  }
};

} // namespace peercache::rdma
