#include "tests/client/actors/call_rig.hpp"

#include "client/calls/clear_call.hpp"

namespace peercache::client {
namespace {

using config::mirror_mode;

/// Tests of gets of pages of `far` that make a mirror of the page in this host's pool.
class mirror_call_test : public call_rig {
protected:
  void start_mirroring(mirror_mode mode, client_options options = {}) {
    start(options);
    pool = map_pool(mode);
    for (std::size_t i = 1; i <= 2; ++i)
      shard.record(key(i), {far.hold(key(i), bytes_of(i))});
  }
  /// Leases these slots to the client, because a get waits only a few milliseconds for a slot to
  /// mirror a page into.
  void lease(const std::vector<slot_id>& slots) {
    pool->leases.ask_for(1, slots.size(), slots.size());
    pool->leases.add(1, static_cast<std::uint32_t>(slots.size()), slots);
  }
  void lease() { lease({near.new_slot(page_bytes), near.new_slot(page_bytes)}); }
  /// Returns the number of pages that the node was told of; expects that all are mirrors.
  std::size_t mirrored() {
    EXPECT_TRUE(flush());
    for (const auto mode : near.says.modes)
      EXPECT_EQ(mode, link::commit_mode::mirror);
    std::size_t pages = 0;
    for (const auto& filled : near.says.committed)
      pages += *link::record_count<link::filled_slot>(filled);
    return pages;
  }

  own_pool_ptr pool;
};

TEST_F(mirror_call_test, a_page_is_copied_once_and_read_on_this_host_from_then_on) {
  start_mirroring(mirror_mode::all);
  lease();
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(mirrored(), 1u);
  EXPECT_FALSE(client->locations.find(key(1))) << "the far one is not the place to go to";
  expect_hit(1, page_origin::own_host);
  EXPECT_EQ(mirrored(), 1u);
}

TEST_F(mirror_call_test, a_hot_page_is_copied_at_its_second_read) {
  start_mirroring(mirror_mode::hot);
  lease();
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(mirrored(), 0u);
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(mirrored(), 1u);
  expect_hit(1, page_origin::own_host);
}

TEST_F(mirror_call_test, nothing_is_copied_when_the_node_does_not_want_it) {
  start_mirroring(mirror_mode::off);
  lease();
  for (int read = 0; read < 3; ++read)
    expect_hit(1, page_origin::other_host);
  EXPECT_EQ(mirrored(), 0u);
}

TEST_F(mirror_call_test, pages_of_one_get_are_one_message) {
  start_mirroring(mirror_mode::all);
  lease();
  get({1, 2});
  EXPECT_EQ(mirrored(), 2u);
  EXPECT_EQ(near.says.committed.size(), 1u);
}

TEST_F(mirror_call_test, without_a_slot_a_get_is_what_it_was) {
  start_mirroring(mirror_mode::all);
  near.says.slots_for = [](const std::string&) {
    std::string slots;
    link::append_record(slots, link::no_slot);
    return slots;
  };
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(mirrored(), 0u);
}

TEST_F(mirror_call_test, nothing_is_copied_while_the_window_is_full_of_sets) {
  start_mirroring(mirror_mode::all);
  lease();
  ASSERT_TRUE(board().window.enter(1u << 30, at_once()));
  expect_hit(1, page_origin::other_host);
  board().window.leave(1u << 30, 1, {});
  EXPECT_EQ(mirrored(), 0u);
}

TEST_F(mirror_call_test, a_page_without_a_checksum_is_not_copied) {
  client_options options;
  options.verify_tcp = verify_mode::off;
  start_mirroring(mirror_mode::all, options);
  lease();
  auto place = far.hold(key(3), bytes_of(3));
  place.checksum = 0; // Without a checksum nobody could tell whether a mirror has the page's bytes.
  shard.record(key(3), {place});
  expect_hit(3, page_origin::other_host);
  EXPECT_EQ(mirrored(), 0u);
}

TEST_F(mirror_call_test, a_slot_that_the_node_took_back_is_not_shown_and_goes_back) {
  start_mirroring(mirror_mode::all);
  lease({slot_id{100}}); // A slot that the node has taken back.
  expect_hit(1, page_origin::other_host);
  EXPECT_EQ(mirrored(), 0u);
  settle(near);
  ASSERT_EQ(link::record_count<slot_id>(near.says.abandoned), 1u);
  EXPECT_EQ(link::record_at<slot_id>(near.says.abandoned, 0), slot_id{100});
}

// -- tests of `clear`

class clear_call_test : public call_rig {
protected:
  clear_result clear() { return clear_space(client->session, "llama", soon()); }
};

TEST_F(clear_call_test, the_node_of_this_host_is_told_the_space_and_its_word_is_the_answer) {
  near.says.clear_answer.certain = true;
  start();
  const auto outcome = clear();
  EXPECT_TRUE(outcome.certain);
  EXPECT_EQ(outcome.why_not, "");
  EXPECT_EQ(near.says.cleared, std::vector{space_named("llama").value});
}

TEST_F(clear_call_test, what_keeps_it_from_being_certain_is_told_in_the_nodes_words) {
  near.says.clear_answer.why_not = "node7 has not confirmed it";
  start();
  const auto outcome = clear();
  EXPECT_FALSE(outcome);
  EXPECT_EQ(outcome.why_not, "node7 has not confirmed it");
}

TEST_F(clear_call_test, without_a_node_nobody_was_told) {
  start();
  board().set_pool(nullptr);
  EXPECT_NE(clear().why_not.find("no node on this host"), std::string::npos);
  EXPECT_TRUE(near.says.cleared.empty());
}

TEST_F(clear_call_test, a_node_that_goes_before_it_answers_may_have_told_some) {
  start();
  caf::anon_send_exit(near.gateway, caf::exit_reason::kill);
  const auto outcome = clear();
  EXPECT_FALSE(outcome.certain);
  EXPECT_NE(outcome.why_not.find("did not answer"), std::string::npos) << outcome.why_not;
}

} // namespace
} // namespace peercache::client
