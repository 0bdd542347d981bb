// Tests of attacks by a program that speaks the protocol of nodes and clients.

#include "foreign_program.hpp"
#include "storage/pool_memory.hpp"

namespace peercache::real::stranger_test {

/// Slots hold the bytes of earlier pages. A program that could commit a slot without filling it
/// could then read such bytes.
TEST_F(foreign_program, that_has_not_mapped_the_pool_gets_no_slot_and_commits_none) {
  put(*client_of(0), 0, 20);
  const auto& gateway = gateways_.front();
  const auto session = ask<session_welcome>(gateway, session_atom_v, std::string{"me"}, events_);
  ASSERT_TRUE(session);
  std::string lengths;
  append_record(lengths, std::uint32_t{page_bytes});
  EXPECT_FALSE(ask<std::string>(gateway, reserve_atom_v, session->session, lengths));
  const filled_slot page{.key = key_of(1000), .slot = {0}, .length_bytes = page_bytes};
  EXPECT_FALSE(commit(session->session, page, lengths));
  EXPECT_NE(get(*client_of(0), 1000).result.status, page_status::hit);
}

TEST_F(foreign_program, that_has_mapped_the_pool_publishes_nothing_that_it_has_not_filled) {
  const auto& gateway = gateways_.front();
  const auto session = ask<session_welcome>(gateway, session_atom_v, std::string{"me"}, events_);
  ASSERT_TRUE(session);
  const auto owner = discovery::decode_member(session->member);
  ASSERT_TRUE(owner);
  auto pool = storage::pool_memory::attach(session->pool_name, owner->inc);
  ASSERT_TRUE(pool) << pool.error().message;
  ASSERT_TRUE(pool->lock_session(session->lock_index));
  std::string lengths;
  append_record(lengths, std::uint32_t{page_bytes});
  for (const bool fills : {false, true}) {
    const auto slots = ask<std::string>(gateway, reserve_atom_v, session->session, lengths);
    ASSERT_TRUE(slots);
    const filled_slot page{.key = key_of(fills ? 1001 : 1000),
                           .slot = record_at<slot_id>(*slots, 0),
                           .length_bytes = page_bytes};
    if (fills) {
      bench::fill_page(1001, 0, pool->slots().bytes(page.slot, page_bytes));
      pool->slots().fill(page.slot, page.key, page.length_bytes, 0);
    }
    const auto statuses = commit(session->session, page, {});
    ASSERT_TRUE(statuses);
    EXPECT_EQ(static_cast<page_status>(statuses->at(0)),
              fills ? page_status::stored : page_status::refused);
    const auto read = get(*client_of(0), fills ? 1001 : 1000);
    EXPECT_EQ(read.result.status, fills ? page_status::hit : page_status::not_found);
  }
}

/// The program publishes a record without a checksum. Readers must still not accept the page
/// without comparing checksums.
TEST_F(foreign_program, whose_record_has_no_checksum_makes_no_hit_where_checksums_are_compared) {
  const auto key = key_of(1);
  put(*client_of(0), 1, 1);
  std::optional<directory::page_location> location;
  for (const auto& shard : shards_)
    if (auto known = location_of(shard, key))
      location = known;
  ASSERT_TRUE(location);
  EXPECT_NE(location->checksum, 0u);
  std::string withdrawal, publication;
  directory::append_withdraw(withdrawal, {key, location->holder, location->gen});
  location->checksum = 0;
  directory::append_publish(publication, {key, *location, directory::publish_mode::always});
  for (const auto& shard : shards_) {
    EXPECT_TRUE(ask<std::uint64_t>(shard, withdraw_atom_v, withdrawal));
    EXPECT_TRUE(ask<std::string>(shard, publish_atom_v, publication));
    EXPECT_EQ(location_of(shard, key).value_or(directory::page_location{}).gen, location->gen);
  }
  EXPECT_EQ(get(*client_of(1), 1).result.status, page_status::corrupt);
  const auto own = get(*client_of(0), 1);
  EXPECT_EQ(own.result.status, page_status::hit) << "its host asks nobody";
  EXPECT_EQ(own.check.wrong_bytes, 0u);
}

} // namespace peercache::real::stranger_test
