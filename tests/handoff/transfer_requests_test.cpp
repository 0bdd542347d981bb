#include "handoff/transfer_requests.hpp"

#include "common/slot_entry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::handoff::transfer_requests_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr peer_id peer{7};

class transfer_requests_test : public testing::Test {
protected:
  transfer_requests_test() { EXPECT_TRUE(memory.add({1000, 1000})); }

  bool write(std::uint64_t id, std::uint64_t destination = 1000, std::uint64_t bytes = 10) {
    return requests.write(peer, {{id}, {{3}, {8}, {}}, 100, {{5, destination, bytes}}}, {});
  }
  template <class Message>
  Message answer() {
    const auto all = requests.take_messages();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Message{} : std::get<Message>(all[0].what);
  }

  std::vector<slot_entry> entries = std::vector<slot_entry>(2);
  registered_memory memory;
  lease_table leases{entries, {1, 2}};
  transfer_reads reads{{}};
  transfer_requests requests{memory, leases, reads, {4, 6}};
};

TEST_F(transfer_requests_test, a_write_is_read_and_answered_when_it_is_quiet) {
  EXPECT_TRUE(write(1));
  const auto order = reads.next_read();
  ASSERT_TRUE(order);
  EXPECT_EQ(order->from, peer);
  EXPECT_THAT(requests.take_messages(), IsEmpty());
  reads.finish_read(order->id, true, "");
  EXPECT_TRUE(requests.read_finished(reads.take_finished().at(0)));
  EXPECT_EQ(answer<transfer_ended>(), (transfer_ended{{1}, true, ""}));
  EXPECT_EQ(requests.size(), 0u);
}

TEST_F(transfer_requests_test, a_write_into_memory_that_is_not_registered_is_refused) {
  EXPECT_TRUE(write(1, 1995, 6));
  const auto said = answer<transfer_ended>();
  EXPECT_FALSE(said.good);
  EXPECT_THAT(said.reason, HasSubstr("6 bytes at 0x7cb are not"));
  EXPECT_EQ(reads.jobs(), 0u);
}

TEST_F(transfer_requests_test, a_write_that_is_stopped_is_answered_when_nothing_writes_any_longer) {
  EXPECT_TRUE(write(1));
  const auto order = reads.next_read();
  requests.stop(peer, {{1}});
  EXPECT_EQ(reads.take_cancels(), std::vector{order->turn});
  EXPECT_THAT(requests.take_messages(), IsEmpty());
  reads.finish_read(order->id, false, "closed");
  EXPECT_TRUE(requests.read_finished(reads.take_finished().at(0)));
  EXPECT_FALSE(answer<transfer_ended>().good);
  requests.stop(peer, {{1}});
}

TEST_F(transfer_requests_test, memory_is_lent_until_the_peer_has_finished) {
  EXPECT_TRUE(requests.read(peer, {{1}, {{1000, 1000}}}));
  const auto under = answer<transfer_lent>().under;
  EXPECT_TRUE(leases.stands(under));
  requests.stop(peer, {{1}});
  EXPECT_FALSE(leases.stands(under));
  EXPECT_EQ(requests.size(), 0u);
}

TEST_F(transfer_requests_test, memory_that_is_not_registered_or_without_a_lease_is_not_lent) {
  EXPECT_TRUE(requests.read(peer, {{1}, {{1000, 1}, {999, 2}}}));
  EXPECT_THAT(answer<transfer_ended>().reason, HasSubstr("2 bytes at 0x3e7"));
  EXPECT_TRUE(requests.read(peer, {{2}, {}}));
  EXPECT_TRUE(requests.read(peer, {{3}, {}}));
  requests.take_messages();
  EXPECT_TRUE(requests.read(peer, {{4}, {}}));
  EXPECT_THAT(answer<transfer_ended>().reason, HasSubstr("no lease"));
}

TEST_F(transfer_requests_test, a_peer_that_is_lost_takes_its_requests_with_it) {
  EXPECT_TRUE(write(1));
  EXPECT_TRUE(requests.read(peer, {{2}, {{1000, 1}}}));
  const auto under = answer<transfer_lent>().under;
  const auto order = reads.next_read();
  requests.lost(peer);
  EXPECT_FALSE(leases.stands(under));
  EXPECT_EQ(reads.take_cancels(), std::vector{order->turn});
  reads.finish_read(order->id, true, "");
  EXPECT_TRUE(requests.read_finished(reads.take_finished().at(0)));
  EXPECT_THAT(requests.take_messages(), IsEmpty());
  EXPECT_EQ(requests.size(), 0u);
}

TEST_F(transfer_requests_test, memory_that_leaves_ends_what_has_to_do_with_it_alone) {
  EXPECT_TRUE(write(1, 1000));
  EXPECT_TRUE(write(2, 1500));
  EXPECT_TRUE(requests.read(peer, {{3}, {{1005, 1}}}));
  const auto lent = answer<transfer_lent>().under;
  EXPECT_TRUE(requests.read(peer, {{4}, {{1505, 1}}}));
  const auto stays = answer<transfer_lent>().under;
  requests.memory_leaves({1000, 100});
  EXPECT_FALSE(leases.stands(lent));
  EXPECT_TRUE(leases.stands(stays));
  EXPECT_EQ(reads.take_finished().size(), 1u);
  EXPECT_TRUE(reads.writes_to({1500, 1}));
}

TEST_F(transfer_requests_test, above_the_limits_are_refused) {
  for (std::uint64_t id = 1; id <= 4; ++id)
    EXPECT_TRUE(write(id));
  EXPECT_THAT(requests.take_messages(), IsEmpty());
  EXPECT_TRUE(write(5));
  EXPECT_THAT(answer<transfer_ended>().reason, HasSubstr("too many"));
  for (std::uint64_t id = 1; id <= 3; ++id)
    EXPECT_TRUE(requests.write({8}, {{id}, {{3}, {8}, {}}, 100, {}}, {}));
  EXPECT_EQ(requests.size(), 6u);
}

TEST_F(transfer_requests_test, a_number_is_one_transfer_s) {
  EXPECT_TRUE(write(1));
  EXPECT_FALSE(write(1));
  EXPECT_FALSE(requests.read(peer, {{1}, {}}));
  EXPECT_TRUE(requests.write({8}, {{1}, {{3}, {8}, {}}, 100, {}}, {})) << "of another peer";
}

} // namespace
} // namespace peercache::handoff::transfer_requests_test
