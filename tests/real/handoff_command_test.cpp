#include "local_ring.hpp"

#include "client/handoff/decode_worker.hpp"
#include "client/handoff/prefill_worker.hpp"

namespace peercache::real {
namespace {

class handoff_command : public local_ring {
protected:
  static constexpr std::uint32_t item_bytes = 4096;

  client::worker_options options(std::size_t node_index) {
    client::worker_options made;
    made.cluster = cluster();
    made.rails.mode = rdma::plane_mode::tcp;
    made.node_port = node(node_index).ports().control_port;
    return made;
  }
  static handoff::kv_layout layout_of(std::vector<std::byte>& memory) {
    handoff::kv_layout layout;
    layout.dtype = "bfloat16";
    layout.page_tokens = 16;
    layout.kv_heads = 1;
    for (std::uint64_t at : {0u, 4u, 8u}) {
      handoff::kv_buffer buffer;
      buffer.address = reinterpret_cast<std::uintptr_t>(memory.data()) + at * item_bytes;
      buffer.length_bytes = 4 * item_bytes;
      buffer.item_bytes = item_bytes;
      (at == 8 ? layout.aux : layout.buffers).push_back(buffer);
    }
    return layout;
  }
  nlohmann::json ask() {
    return run_cli({"handoff", "-o", "json", "--cluster", cluster(), "--node", address(0)}).json();
  }
  /// Hands a prompt of two pages over, or gives it up at prefill in the middle; clears the room.
  static void hand_over(client::prefill_worker& prefill, client::decode_worker& decode,
                        bool succeeds) {
    auto sending = prefill.open({1}, 1);
    auto receiving = decode.open({1});
    ASSERT_TRUE(sending && receiving);
    ASSERT_TRUE(decode.connect({1}, {{"127.0.0.1", prefill.port()}}));
    const auto reaches = [](const auto& state, handoff::room_state wanted) {
      return within(milliseconds(10'000), [&] { return state.poll() == wanted; });
    };
    ASSERT_TRUE(reaches(*receiving, handoff::room_state::waiting_for_input));
    handoff::allocated_pages pages;
    pages.pages = {0, 1};
    ASSERT_TRUE(decode.allocate({1}, pages));
    ASSERT_TRUE(reaches(sending->state, handoff::room_state::waiting_for_input));
    ASSERT_TRUE(prefill.init(sending->id, 2));
    if (succeeds) {
      ASSERT_TRUE(prefill.send(sending->id, std::vector<std::uint32_t>{2, 3}, true));
      ASSERT_TRUE(reaches(sending->state, handoff::room_state::success));
    } else {
      prefill.abort(sending->id, "the client has gone");
      ASSERT_TRUE(reaches(*receiving, handoff::room_state::failed));
    }
    prefill.clear(sending->id);
    decode.clear({1});
  }
};

TEST_F(handoff_command, shows_what_workers_have_done_and_why_the_last_rooms_failed) {
  EXPECT_TRUE(ask()["workers"].empty());
  std::vector<std::byte> from(12 * item_bytes), to(12 * item_bytes);
  auto prefill = client::prefill_worker::start(options(0), layout_of(from));
  auto decode = client::decode_worker::start(options(1), layout_of(to));
  ASSERT_TRUE(prefill && decode);
  for (const bool succeeds : {true, false})
    ASSERT_NO_FATAL_FAILURE(hand_over(**prefill, **decode, succeeds));
  nlohmann::json shown;
  ASSERT_TRUE(within(milliseconds(10'000), [&] {
    shown = ask();
    return shown["workers"].size() == 2 && shown["last_failures"].size() == 2;
  })) << shown.dump();
  const auto& of_prefill = shown["workers"][0];
  EXPECT_EQ(of_prefill["side"], "prefill");
  EXPECT_EQ(of_prefill["succeeded"], 1);
  EXPECT_EQ(of_prefill["failures"]["aborted"], 1);
  const auto& of_decode = shown["workers"][1];
  EXPECT_EQ(of_decode["side"], "decode");
  EXPECT_EQ(of_decode["node"], "node-2");
  EXPECT_EQ(of_decode["bytes"], 5 * item_bytes);
  EXPECT_EQ(of_decode["failures"]["peer_aborted"], 1);
  EXPECT_GT(of_decode["p50_us"].get<std::uint64_t>(), 0u);
  EXPECT_TRUE(of_decode["states"].empty()) << "all rooms are cleared";
  EXPECT_EQ(shown["last_failures"][0]["reason"], "the client has gone");

  // A step of the nodes' history ends every ten seconds, and its rates show for as long.
  ASSERT_TRUE(within(milliseconds(30'000), [&] {
    shown = ask();
    const auto& decode_now = shown["workers"][1];
    return decode_now.value("rooms_per_s", 0.0) > 0 && decode_now.value("bytes_per_s", 0.0) > 0;
  })) << shown.dump();
  ASSERT_TRUE((*prefill)->open({2}, 1));
  ASSERT_TRUE(within(milliseconds(10'000), [&] {
    shown = ask();
    return shown["workers"][0]["states"] == nlohmann::json{{"bootstrapping", 1}};
  })) << shown.dump();

  // Ends both workers; the node must keep their totals.
  prefill->reset();
  decode->reset();
  ASSERT_TRUE(within(milliseconds(10'000), [&] {
    shown = ask();
    return shown["workers"].size() == 2 && shown["workers"][1]["peers"] == 0;
  })) << shown.dump();
  EXPECT_EQ(shown["workers"][1]["succeeded"], 1);
  EXPECT_FALSE(shown["last_failures"][0].contains("seconds_ago"));
}

} // namespace
} // namespace peercache::real
