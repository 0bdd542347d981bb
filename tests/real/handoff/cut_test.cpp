#include "tests/real/handoff/loss_rig.hpp"

#include "tests/real/net_lab.hpp"

#include <cstdio>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

/// What becomes of rooms when the network between prefill and decode loses all packets, and when it
/// is whole again. The two workers are on hosts of their own (net_lab).
namespace peercache::client::test {
namespace {

using handoff::room_state;
using std::chrono::milliseconds;

constexpr std::uint32_t of_prefill = 0, of_decode = 1;

/// Which packets are lost.
enum class lost { all, of_prefill, of_decode };

class cut : public testing::TestWithParam<std::tuple<lost, room_state>> {
protected:
  void SetUp() override {
    auto made = real::net_lab::make(2);
    if (!made)
      GTEST_SKIP() << made.error().message;
    lab_.emplace(std::move(*made));
    shared_.chunks = state() == room_state::transferring ? 1 : 0;
    auto options = tcp_options();
    options.host = real::net_lab::address(of_prefill);
    options.insecure_cluster = true;
    prefill_.emplace(side::prefill, shared_, options, [this] { lab_->enter(of_prefill); });
    lab_->enter(of_decode);
    decode_.emplace();
    ASSERT_TRUE(eventually([this] { return shared_.prefill_port != 0; }));
  }
  void TearDown() override {
    decode_.reset();
    prefill_.reset();
    if (lab_) {
      ASSERT_EQ(::setns(own_network_, CLONE_NEWNET), 0);
    }
    ::close(own_network_);
  }

  lost what() const { return std::get<0>(GetParam()); }
  room_state state() const { return std::get<1>(GetParam()); }
  handoff::worker_address address() const {
    return {real::net_lab::address(of_prefill), shared_.prefill_port};
  }
  void make_cut() {
    if (what() != lost::of_decode) {
      ASSERT_TRUE(lab_->cut(of_prefill, of_decode));
    }
    if (what() != lost::of_prefill) {
      ASSERT_TRUE(lab_->cut(of_decode, of_prefill));
    }
  }

  const int own_network_ = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  std::optional<real::net_lab> lab_;
  shared_state& shared_ = map_shared();
  std::optional<victim> prefill_;
  std::optional<decode_side> decode_;
};

TEST_P(cut, fails_the_room_at_both_sides_in_time_and_new_ones_work_when_it_is_healed) {
  decode_->connect(address());
  ASSERT_TRUE(eventually([&] { return decode_->poll() == state(); }));
  // Prefill's room waits for input when both joins are there.
  ASSERT_TRUE(eventually([&] { return shared_.victims == state(); }));
  make_cut();
  const auto took = time_until([&] {
    return decode_->poll() == room_state::failed && shared_.victims == room_state::failed;
  });
  std::printf("[ measured ] both sides have failed after %lld ms\n",
              static_cast<long long>(took.count()));
  EXPECT_LE(took.count(), (silence_is_seen_within + margin_of_cuts).count());
  ASSERT_TRUE(lab_->heal());
  shared_.chunks = 2;
  for (std::uint32_t round = 1; round <= 2; ++round) {
    shared_.round = round;
    ASSERT_TRUE(eventually([&] { return shared_.begun == round; }));
    decode_->connect(address());
    ASSERT_TRUE(eventually([&] {
      return decode_->poll() == room_state::success && shared_.victims == room_state::success;
    }));
    EXPECT_TRUE(decode_->has_pages());
  }
}

std::string name_of_cut(const testing::TestParamInfo<cut::ParamType>& info) {
  const auto& [what, state] = info.param;
  const char* words[] = {"all_packets", "packets_of_prefill", "packets_of_decode"};
  return std::string(words[static_cast<std::size_t>(what)]) +
         (state == room_state::transferring ? "_in_transferring" : "_in_waiting_for_input");
}

INSTANTIATE_TEST_SUITE_P(
    handoff, cut,
    testing::Combine(testing::Values(lost::all, lost::of_prefill, lost::of_decode),
                     testing::Values(room_state::waiting_for_input, room_state::transferring)),
    name_of_cut);

} // namespace
} // namespace peercache::client::test
