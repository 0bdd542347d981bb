#include "tests/client/handoff/transfer_rig.hpp"
#include "tests/client/handoff/worker_rig.hpp"
#include "tests/support/certificates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::client::test::worker_tls_test {
namespace {

using handoff::room_state;
using testing::HasSubstr;

/// Options of a worker that shows this certificate.
worker_options under_tls(const net::tls_files& files, bool pages_in_tls) {
  auto options = tcp_options();
  options.tls = context_of(files);
  options.rails.pages_in_tls = pages_in_tls;
  return options;
}

class worker_tls_test : public testing::TestWithParam<bool> {
protected:
  const certificates ca;
};

TEST_P(worker_tls_test, hands_pages_over_between_engines_with_clients_certificates) {
  worker_pair pair(under_tls(ca.client("prefill"), GetParam()),
                   under_tls(ca.client("decode"), false));
  for (std::uint64_t room = 1; room <= 5; ++room) {
    pair.meet(room, {10, 11});
    const auto value = static_cast<std::uint8_t>(room);
    pair.prefill_memory.fill(20, value);
    pair.prefill_memory.fill(21, value + 1);
    pair.prefill_memory.fill_aux(5, value);
    ASSERT_TRUE(pair.prefill->init(pair.sending->id, 2));
    ASSERT_TRUE(
        pair.prefill->send(pair.sending->id, std::vector<std::uint32_t>{20, 21}, true, {}, 5));
    ASSERT_TRUE(eventually([&] { return pair.receiving->poll() == room_state::success; }));
    EXPECT_TRUE(pair.decode_memory.has(10, value));
    EXPECT_TRUE(pair.decode_memory.has(11, value + 1));
    EXPECT_TRUE(pair.decode_memory.has_aux(3, value));
    pair.part();
  }
}

TEST_P(worker_tls_test, transfer_engines_read_and_write_each_others_memory) {
  transfer_engine one(1 << 20, under_tls(ca.client("one"), GetParam()));
  transfer_engine two(1 << 20, under_tls(ca.client("two"), GetParam()));
  one.fill(1);
  const auto written =
      one.call(handoff::transfer_direction::write, two, {{one.at(0), two.at(0), 1 << 20}});
  EXPECT_EQ(written.state, handoff::call_state::done) << written.reason;
  EXPECT_TRUE(one.memory == two.memory);
  two.fill(2);
  const auto read =
      one.call(handoff::transfer_direction::read, two, {{two.at(0), one.at(0), 1 << 20}});
  EXPECT_EQ(read.state, handoff::call_state::done) << read.reason;
  EXPECT_TRUE(one.memory == two.memory);
}

INSTANTIATE_TEST_SUITE_P(handshake_and_full, worker_tls_test, testing::Bool());

TEST(worker_tls, of_one_side_alone_fails_the_room_with_a_sentence) {
  const certificates ca;
  worker_pair pair(tcp_options(), under_tls(ca.client(), false));
  const auto room = pair.decode->open({7});
  ASSERT_TRUE(room);
  ASSERT_TRUE(pair.decode->connect({7}, {pair.address()}));
  ASSERT_TRUE(eventually([&] { return room->poll() == room_state::failed; }));
  EXPECT_THAT(pair.decode->end({7}, "late")->reason, HasSubstr("TLS"));
}

TEST(worker_tls, lets_a_worker_listen_beyond_loopback) {
  const certificates ca;
  worker_memory memory;
  auto options = tcp_options();
  options.host = "0.0.0.0";
  const auto plain = prefill_worker::start(options, memory.layout());
  ASSERT_FALSE(plain);
  EXPECT_THAT(plain.error().message, HasSubstr("insecure_cluster"));
  options.tls = context_of(ca.client());
  EXPECT_TRUE(prefill_worker::start(options, memory.layout()));
}

} // namespace
} // namespace peercache::client::test::worker_tls_test
