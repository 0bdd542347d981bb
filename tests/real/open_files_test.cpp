// Tests of how many files a node may have open.

#include "local_ring.hpp"

#include <fstream>
#include <sstream>
#include <sys/resource.h>

namespace peercache::real::open_files_test {

namespace {

/// Nodes that are started with a soft limit of open files below the hard limit, as shells start
/// programs.
class open_files : public local_ring {
protected:
  void SetUp() override {
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &own_), 0);
    auto low = own_;
    low.rlim_cur = 512;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    local_ring::SetUp();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &own_), 0);
  }

  rlimit own_{};
};

TEST_F(open_files, a_node_takes_as_many_as_it_may) {
  std::ifstream limits("/proc/" + std::to_string(node(0).process().pid()) + "/limits");
  std::string line;
  while (std::getline(limits, line) && !line.starts_with("Max open files"))
    continue;
  std::istringstream fields(line.substr(std::string("Max open files").size()));
  std::uint64_t soft = 0, hard = 0;
  ASSERT_TRUE(fields >> soft >> hard) << line;
  EXPECT_EQ(soft, hard);
  EXPECT_GT(soft, 512u) << "the test needs a higher hard limit";
}

} // namespace

} // namespace peercache::real::open_files_test
