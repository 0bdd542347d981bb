// Tests of memory windows that a device does not have, or has too few of.

#include "rdma/channel_options.hpp"
#include "rdma/verbs/rail_servers.hpp"
#include "tests/rdma/verbs/verbs_windows_rig.hpp"

namespace peercache::rdma::verbs_window_failures_test {
namespace {

using namespace std::chrono_literals;

TEST_F(verbs_windows, readers_that_get_none_are_told_busy_before_their_connect_time_out) {
  serve(with_windows(), 200);
  register_all();
  fabric.hold();
  auto head = new_reader("head"), queued = new_reader("queued");
  head->come(*server);
  queued->come(*server);
  settle();
  pass(199ms);
  EXPECT_FALSE(heard(*head));
  pass(1ms);
  const auto of_head = head->peer.hear<verbs_answer>();
  ASSERT_TRUE(of_head);
  EXPECT_EQ(of_head->verdict, verbs_verdict::busy);
  EXPECT_TRUE(head->told_end());
  EXPECT_FALSE(heard(*queued));
  pass(channel_plane_options().connect_timeout - 250ms);
  const auto of_queued = queued->peer.hear<verbs_answer>();
  ASSERT_TRUE(of_queued) << "whether it has begun meanwhile or not";
  EXPECT_EQ(of_queued->verdict, verbs_verdict::busy);
  EXPECT_EQ(ended(session_end::no_window), 2u);
  EXPECT_EQ(stats().verdicts[static_cast<std::size_t>(verbs_verdict::accepted)], 0u);
  fabric.release();
  const auto next = established();
  EXPECT_EQ(next->read(next->chunks[0]), IBV_WC_SUCCESS);
}

TEST_F(verbs_windows, a_reader_has_waited_since_its_connection_was_accepted) {
  serve(with_windows());
  register_all();
  fabric.hold();
  auto head = new_reader("head"), late = new_reader("late");
  head->come(*server);
  // The handshake of TLS and the hello have taken 300 ms of the reader's connect time-out.
  late->come(*server, now - 300ms);
  settle();
  pass(129ms);
  EXPECT_FALSE(heard(*late));
  pass(1ms);
  const auto told = late->peer.hear<verbs_answer>();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->verdict, verbs_verdict::busy);
  EXPECT_FALSE(heard(*head));
  fabric.release();
}

/// A step towards a window that fails: it is not allocated, its bind request cannot be posted, or
/// the bind completes with an error. `says` is a part of the reason that the server reports.
struct failure {
  tests::fake_call what;
  int error;
  const char* says;
};

class window_failures : public verbs_windows, public testing::WithParamInterface<failure> {
protected:
  window_failures() {
    options.on_no_window = [this](const std::string& why) { reasons.push_back(why); };
    options.on_not_registered = [](const std::string& why) { ADD_FAILURE() << why; };
  }
  verbs_server_options options = with_windows();
  std::vector<std::string> reasons;
};

TEST_P(window_failures, cost_a_new_session_that_is_told_so_and_say_why) {
  serve(options);
  register_all();
  for (int i = 0; i < 2; ++i) {
    fabric.fail(GetParam().what, GetParam().error);
    auto reader = new_reader();
    EXPECT_EQ(verdict_for(*reader), verbs_verdict::no_device);
    EXPECT_TRUE(reader->told_end());
  }
  EXPECT_EQ(ended(session_end::no_window), 2u);
  EXPECT_EQ(stats().windows_failed, 2u);
  EXPECT_EQ(stats().queue_pairs_failed, 0u);
  ASSERT_EQ(reasons.size(), 1u) << "once a minute";
  EXPECT_NE(reasons[0].find(GetParam().says), std::string::npos) << reasons[0];
  const auto next = established();
  EXPECT_EQ(next->read(next->chunks[2]), IBV_WC_SUCCESS);
  pass(61s);
  fabric.fail(GetParam().what, GetParam().error);
  const auto later = new_reader();
  later->come(*server);
  settle();
  EXPECT_EQ(reasons.size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(
    verbs_windows, window_failures,
    testing::Values(failure{tests::fake_call::allocate_window, ENOMEM, "rdma.windows = false"},
                    failure{tests::fake_call::post_send, ENOMEM, "cannot be bound"},
                    failure{tests::fake_call::bind_window, 1, "memory window bind error"}),
    [](const auto& info) {
      return info.param.what == tests::fake_call::allocate_window ? "made"
             : info.param.what == tests::fake_call::post_send     ? "posted"
                                                                  : "bound";
    });

TEST_F(verbs_windows, a_later_chunk_without_one_costs_no_session_and_is_tried_again) {
  serve(with_windows());
  server->regions().register_next();
  const auto reader = established();
  ASSERT_EQ(reader->chunks.size(), 1u);
  fabric.fail(tests::fake_call::allocate_window, ENOMEM);
  server->regions().register_next();
  settle();
  EXPECT_TRUE(served(*reader));
  EXPECT_EQ(reader->read(reader->chunks[0]), IBV_WC_SUCCESS);
  pass(900ms);
  reader->take_chunks();
  EXPECT_EQ(reader->chunks.size(), 1u);
  pass(200ms);
  pass(10ms);
  reader->take_chunks();
  ASSERT_EQ(reader->chunks.size(), 2u);
  EXPECT_EQ(reader->read(reader->chunks[1]), IBV_WC_SUCCESS);
}

TEST_F(verbs_windows, none_is_longer_than_devices_bind) {
  auto options = with_windows();
  options.chunk_bytes = 4ull << 30;
  serve(options, 5u << 10);
  EXPECT_EQ(server->regions().chunks(), 3u);
  register_all();
  const auto reader = established();
  ASSERT_EQ(reader->chunks.size(), 3u);
  for (const auto& chunk : reader->chunks)
    EXPECT_LE(chunk.bytes, std::uint64_t{2} << 30);
  const std::span<std::byte> huge{reinterpret_cast<std::byte*>(1ull << 40), 9ull << 40};
  const auto device = open("nic0");
  const auto refused = plan_for(*device, huge, 4ull << 30, verbs::region_use::windows);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::incompatible);
  EXPECT_NE(refused.error().message.find("rdma.windows = false"), std::string::npos);
  EXPECT_TRUE(plan_for(*device, huge, 4ull << 30, verbs::region_use::remote_read));
}

TEST_F(verbs_windows, a_device_with_fewer_than_one_reader_takes_is_refused_at_the_start) {
  auto few = tests::roce_device("few0", 3);
  few.windows_max = 2;
  fabric.add(few);
  const rail_pool five{5};
  const auto refused = verbs_rail_server::create(open("few0"), with_windows(), five.served());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::incompatible);
  EXPECT_NE(refused.error().message.find("few0 has only 2"), std::string::npos);
}

TEST_F(verbs_windows, those_of_many_sessions_end_in_slices_behind_stopped_queue_pairs) {
  serve(with_windows(), 200);
  register_all();
  const auto one = established("one"), two = established("two");
  const auto windows = fabric.windows().size();
  ASSERT_GT(windows, 200u);
  fabric.set_port_state("nic0", 1, IBV_PORT_DOWN);
  server->poll(now);
  EXPECT_TRUE(one->told_end());
  EXPECT_TRUE(two->told_end());
  EXPECT_EQ(fabric.queue_pair(one->answer.end.queue_pair)->state, IBV_QPS_ERR);
  EXPECT_EQ(fabric.queue_pair(two->answer.end.queue_pair)->state, IBV_QPS_ERR);
  EXPECT_EQ(fabric.windows().size(), windows - 64);
  settle();
  EXPECT_EQ(fabric.objects().windows, 0u);
  EXPECT_FALSE(served(*one));
}

class devices_without_windows : public testing::Test {
protected:
  devices_without_windows() {
    auto old = tests::roce_device("old0", 1);
    old.has_windows = false;
    fabric.add(old);
    fabric.add(tests::roce_device("new0", 2));
  }
  result<std::unique_ptr<rail_servers>> opened(bool windows, std::vector<std::string> devices) {
    rail_settings settings;
    settings.windows = windows;
    settings.devices = std::move(devices);
    const auto choice = choose_rails(settings);
    EXPECT_TRUE(choice);
    return rail_servers::open(*choice, settings, rail_options(), pool.served());
  }
  tests::fake_fabric fabric;
  rail_pool pool{5};
};

TEST_F(devices_without_windows, are_refused_with_option_and_remedy_and_not_left_out) {
  const auto refused = opened(true, {"auto"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::incompatible);
  for (const auto* words : {"rdma.windows = true", "old0", "type 2B", "rdma.windows = false",
                            "rdma.devices", "data_plane = tcp"})
    EXPECT_NE(refused.error().message.find(words), std::string::npos) << words;
  EXPECT_TRUE(opened(true, {"new0"}));
  const auto without = opened(false, {"auto"});
  ASSERT_TRUE(without);
  EXPECT_EQ((*without)->rails(), 2u);
}

} // namespace
} // namespace peercache::rdma::verbs_window_failures_test
