// How soon memory is the engine's own again when a call ends a room in the midst of its transfer.

#include "tests/client/handoff/worker_rig.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace peercache::client::test {
namespace {

using clock = std::chrono::steady_clock;
using handoff::room_state;

/// A prompt of 64 MiB over TCP. An engine's call ends its room while its bytes are read.
class give_back : public testing::Test {
protected:
  static constexpr std::uint32_t page_bytes = 512u << 10;
  static constexpr std::uint32_t rounds = 15;

  give_back() {
    for (std::uint32_t page = 0; page < worker_memory::pages; ++page)
      sent_.fill(page, 0x42);
  }

  /// Begins to transfer all pages in a new room. False when they have arrived already.
  bool begin() {
    ++room_.value;
    sending_ = *prefill_->open(room_, 1);
    receiving_ = *decode_->open(room_);
    EXPECT_TRUE(decode_->connect(room_, {{"127.0.0.1", prefill_->port()}}));
    EXPECT_TRUE(eventually([&] { return receiving_.poll() == room_state::waiting_for_input; }));
    handoff::allocated_pages pages;
    pages.pages = all_;
    EXPECT_TRUE(decode_->allocate(room_, std::move(pages)));
    EXPECT_TRUE(eventually([&] { return prefill_->prefix_pages(sending_->id).has_value(); }));
    EXPECT_TRUE(prefill_->init(sending_->id, worker_memory::pages));
    EXPECT_TRUE(prefill_->send(sending_->id, all_, true));
    EXPECT_TRUE(eventually([&] { return receiving_.poll() >= room_state::transferring; }));
    return receiving_.poll() == room_state::transferring;
  }

  /// Expects that half of the calls in the midst of a transfer take no longer than 20 ms.
  /// A call in whose round the transfer had ended before it does not count.
  void expect_soon(const std::function<void()>& call, const std::function<void()>& afterwards) {
    std::vector<double> took_ms;
    for (std::uint32_t i = 0; i < rounds; ++i) {
      const bool in_the_midst = begin();
      const auto since = clock::now();
      call();
      if (in_the_midst)
        took_ms.push_back(std::chrono::duration<double, std::milli>(clock::now() - since).count());
      afterwards();
      prefill_->clear(sending_->id);
      decode_->clear(room_);
    }
    ASSERT_GE(took_ms.size(), rounds / 3) << "transfers end before the call";
    std::ranges::sort(took_ms);
    std::printf("[ measured ] %zu calls: median %.2f ms, longest %.2f ms\n", took_ms.size(),
                took_ms[took_ms.size() / 2], took_ms.back());
    EXPECT_LE(took_ms[took_ms.size() / 2], 20.0);
  }

  worker_memory sent_{page_bytes}, received_{page_bytes};
  std::unique_ptr<prefill_worker> prefill_ =
      std::move(*prefill_worker::start(tcp_options(), sent_.layout()));
  std::unique_ptr<decode_worker> decode_ =
      std::move(*decode_worker::start(tcp_options(), received_.layout()));
  std::vector<std::uint32_t> all_ = [] {
    std::vector<std::uint32_t> pages(worker_memory::pages);
    std::iota(pages.begin(), pages.end(), 0u);
    return pages;
  }();
  handoff::room_id room_{0};
  std::optional<prefill_room> sending_;
  room_watch receiving_;
};

TEST_F(give_back, a_room_that_decode_ends_is_quiet_within_20_ms) {
  expect_soon([&] { decode_->end(room_, "the test ends it"); }, [] {});
}

TEST_F(give_back, a_room_that_prefill_clears_is_revoked_within_20_ms) {
  expect_soon([&] { prefill_->clear(sending_->id); }, [] {});
}

TEST_F(give_back, memory_that_decode_takes_back_is_quiet_within_20_ms) {
  expect_soon([&] { decode_->give_memory_back(); }, [&] { ASSERT_TRUE(decode_->lend_memory()); });
}

TEST_F(give_back, memory_that_prefill_takes_back_is_revoked_within_20_ms) {
  expect_soon([&] { prefill_->give_memory_back(); }, [&] { ASSERT_TRUE(prefill_->lend_memory()); });
}

} // namespace
} // namespace peercache::client::test
