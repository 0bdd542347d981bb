#pragma once

#include "tests/rdma/plane_rig.hpp"
#include "tests/rdma/verbs/verbs_rig.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace peercache::rdma {

inline constexpr incarnation first_life{1, 1};
inline constexpr incarnation second_life{2, 2};

/// A data plane to test, and how the pages that it reads are served: from a pool, or as memory
/// under leases.
struct plane_version {
  const char* name;
  std::unique_ptr<plane_rig> (*make)(data_service);
  data_service what = data_service::pool;

  static std::string name_of(const testing::TestParamInfo<plane_version>& info) {
    return info.param.name;
  }
};

/// Returns all data planes, each with both services.
inline auto all_planes() {
  using version = plane_version;
  return testing::Values(version{"memory", make_memory_rig}, version{"tcp", make_tcp_rig},
                         version{"verbs", make_verbs_rig},
                         version{"memory_leases", make_memory_rig, data_service::handoff},
                         version{"tcp_leases", make_tcp_rig, data_service::handoff},
                         version{"verbs_leases", make_verbs_rig, data_service::handoff});
}

/// A reader and a server of one version.

class data_plane_conformance : public testing::TestWithParam<plane_version> {
protected:
  data_plane_conformance() : rig(GetParam().make(GetParam().what)) {}

  void TearDown() override {
    rig->plane().shutdown();
    rig->steps(200);
    EXPECT_EQ(pool.pins(), 0) << "a pin outlived its batch";
  }

  void serve(fault what = fault::none) { rig->serve(pool, first_life, what); }

  test_batch batch_of(std::uint32_t count, std::uint32_t length_bytes) {
    return test_batch(pool, count, length_bytes);
  }

  void expect_hits(const test_batch& what) {
    ASSERT_TRUE(what.batch.complete());
    for (std::size_t i = 0; i < what.batch.pages.size(); ++i) {
      ASSERT_EQ(to_string(what.batch.pages[i].status), "hit") << "page " << i;
      ASSERT_TRUE(what.holds(pool, i)) << "page " << i;
    }
    EXPECT_TRUE(what.guards_untouched());
  }

  test_pool pool;
  std::unique_ptr<plane_rig> rig;
};

} // namespace peercache::rdma
