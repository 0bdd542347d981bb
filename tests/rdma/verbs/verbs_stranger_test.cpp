// Tests of what a rail server gives to a reader that lies about itself, and of how such a reader
// affects others.

#include "tests/rdma/connect_from.hpp"
#include "tests/rdma/verbs/verbs_rail_rig.hpp"

namespace peercache::rdma::verbs_stranger_test {
namespace {

class verbs_stranger : public verbs_rail_rig {
protected:
  void SetUp() override {
    serve();
    register_all();
  }
};

TEST_F(verbs_stranger, a_reader_of_another_host_ends_no_session_by_its_name) {
  auto listener = net::listen_on("127.0.0.1", 0, 8);
  ASSERT_TRUE(listener);
  const auto established_from = [&](const char* address, incarnation inc) {
    auto made = new_reader("rank-0");
    made->peer = raw_peer(connect_from(address, net::local_port(*listener)));
    made->servers_end = net::accept_from(*listener, {});
    EXPECT_TRUE(made->servers_end);
    made->greeting.reader = inc;
    made->come(*server);
    const auto hears = [&] {
      pollfd answer{made->peer.fd.get(), POLLIN, 0};
      return ::poll(&answer, 1, 0) == 1;
    };
    while (!hears())
      settle();
    made->connect();
    made->peer.say(verbs_ready{});
    settle();
    return made;
  };
  const auto first = established_from("127.0.0.1", {1, 0});
  const auto impostor = established_from("127.0.0.2", {2, 0});
  EXPECT_TRUE(served(*first) && served(*impostor));
  const auto again = established_from("127.0.0.1", {3, 0});
  EXPECT_FALSE(served(*first));
  EXPECT_TRUE(served(*impostor) && served(*again));
}

TEST_F(verbs_stranger, a_refused_reader_does_not_hear_which_process_serves) {
  const auto reader = new_reader();
  reader->greeting.inc = {7, 7};
  reader->come(*server);
  settle();
  const auto answer = reader->peer.hear<verbs_answer>();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->verdict, verbs_verdict::other_incarnation);
  EXPECT_EQ(answer->inc, incarnation{});
}

} // namespace
} // namespace peercache::rdma::verbs_stranger_test
