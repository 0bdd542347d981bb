#include "tests/client/actors/client_fixture.hpp"

#include "directory/wire.hpp"

namespace peercache::client {
namespace {

using session_actor_test = client_fixture;

TEST_F(session_actor_test, sends_what_was_filled_and_one_commit_at_a_time) {
  commit(0, 2, board->pool());
  commit(1, 3, board->pool());
  ASSERT_EQ(node.commits.size(), 1u);
  EXPECT_EQ(flushed(), std::nullopt);
  accept_commit();
  ASSERT_EQ(node.commits.size(), 2u);
  accept_commit();
  EXPECT_EQ(flush_failures(), 0u);
}

TEST_F(session_actor_test, a_flush_tells_duplicates_from_failures) {
  commit(0, 4, board->pool());
  std::string statuses;
  for (auto status : {page_status::stored, page_status::duplicate, page_status::no_space})
    statuses.push_back(static_cast<char>(status)); // The fourth page gets no status.
  answer_commit(statuses);
  auto outcome = flushed();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->failed, 2u);
  EXPECT_EQ(outcome->duplicates, 1u);
  EXPECT_EQ(outcome->unpublished, 0u);
}

TEST_F(session_actor_test, a_flush_does_not_call_published_what_no_owner_has_recorded) {
  commit(0, 2, board->pool());
  answer_commit(
      {static_cast<char>(page_status::stored), static_cast<char>(page_status::unreachable)});
  const auto outcome = flushed();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->failed, 1u);
  EXPECT_EQ(outcome->unpublished, 1u);
}

TEST_F(session_actor_test, a_flush_counts_no_mirrored_pages_which_nobody_has_set) {
  pending_commit job;
  job.pool = board->pool();
  job.filled = std::string(sizeof(link::filled_slot), '\0');
  job.mode = link::commit_mode::mirror;
  ASSERT_TRUE(board->window.enter(0, std::chrono::steady_clock::now()));
  ASSERT_TRUE(board->commits.push(std::move(job)));
  caf::anon_send(actor, link::commit_atom_v, link::from_here{});
  settle();
  answer_commit({static_cast<char>(page_status::no_space)});
  EXPECT_EQ(flush_failures(), 0u);
}

TEST_F(session_actor_test, everything_that_waits_for_a_node_that_is_gone_fails_at_once) {
  auto lost = board->pool();
  commit(0, 2, lost);
  commit(1, 3, lost);
  commit(2, 4, lost);
  ASSERT_EQ(node.commits.size(), 1u);
  lose_node();
  EXPECT_EQ(flush_failures(), 9u);
  EXPECT_EQ(node.commits.size(), 1u) << "a node that is gone is asked nothing";
}

TEST_F(session_actor_test, commits_for_the_new_node_do_not_wait_behind_those_of_the_old_one) {
  auto lost = board->pool();
  commit(0, 2, lost);
  commit(1, 3, lost);
  lose_node();
  pass(std::chrono::milliseconds(250)); // The next beat opens the session with the new process.
  ASSERT_NE(board->pool(), nullptr);
  ASSERT_NE(board->pool(), lost);
  commit(2, 1, lost); // The caller of this commit was still copying when the node was lost.
  commit(3, 4, board->pool());
  ASSERT_EQ(node.commits.size(), 2u);
  EXPECT_EQ(node.committed[1].size(), 4 * sizeof(link::filled_slot));
  accept_commit();
  EXPECT_EQ(flush_failures(), 6u);
}

TEST_F(session_actor_test, a_pool_that_cannot_be_mapped_is_why_there_is_no_session_until_it_can) {
  const auto name = std::exchange(node.welcome.pool_name, "/peercache-no-such-pool");
  lose_node();
  pass(std::chrono::milliseconds(250));
  EXPECT_EQ(board->pool(), nullptr);
  const auto ready = board->wait_ready(std::chrono::steady_clock::now());
  ASSERT_FALSE(ready);
  EXPECT_NE(ready.error().message.find("its pool cannot be mapped"), std::string::npos)
      << ready.error().message;
  node.welcome.pool_name = name;
  pass(std::chrono::milliseconds(250));
  EXPECT_NE(board->pool(), nullptr);
}

TEST_F(session_actor_test, totals_are_told_to_each_session_and_when_they_have_changed) {
  const auto pass_seconds = [this](int count) {
    for (int i = 0; i < count; ++i)
      pass(std::chrono::milliseconds(1000));
  };
  pass_seconds(5);
  ASSERT_EQ(node.totals.size(), 1u);
  totals.add(metric::pool_puts_total);
  pass_seconds(1);
  ASSERT_EQ(node.totals.size(), 2u);
  EXPECT_EQ(node.totals[1].count(metric::pool_puts_total), 1u);
  metrics::latency_snapshot taken;
  taken.count = 1;
  totals.set(metric::disk_op_seconds, {"read"}, taken);
  pass_seconds(1);
  ASSERT_EQ(node.totals.size(), 3u);
  taken.count = 2;
  totals.set(metric::disk_op_seconds, {"read"}, taken);
  pass_seconds(5);
  EXPECT_EQ(node.totals.size(), 4u);
  lose_node();
  pass_seconds(2);
  EXPECT_EQ(node.totals.size(), 5u);
}

TEST_F(session_actor_test, whoever_is_sent_away_is_told_why_at_once) {
  node.refuses = "it belongs to cluster 'blue'";
  lose_node();
  pass(std::chrono::milliseconds(250));
  const auto an_hour = std::chrono::steady_clock::now() + std::chrono::hours(1);
  const auto ready = board->wait_ready(an_hour);
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().code, errc::incompatible);
  EXPECT_EQ(ready.error().message, node.refuses);
}

TEST_F(session_actor_test, the_nodes_word_about_owners_is_taken_within_bounds) {
  for (const auto& [said, taken] : {std::pair{0u, 1u}, {3u, 3u}, {1000u, 8u}}) {
    node.welcome.directory_replicas = said;
    lose_node();
    pass(std::chrono::milliseconds(250));
    EXPECT_EQ(board->pool()->directory_replicas, taken);
  }
}

TEST_F(session_actor_test, a_way_to_mirror_that_this_client_does_not_know_is_none) {
  for (const auto& [said, taken] :
       {std::pair{2, config::mirror_mode{2}}, {77, config::mirror_mode::off}}) {
    node.welcome.mirror = static_cast<std::uint8_t>(said);
    lose_node();
    pass(std::chrono::milliseconds(250));
    EXPECT_EQ(board->pool()->mirror, taken);
  }
}

TEST_F(session_actor_test, questions_for_slots_of_a_node_that_is_gone_are_answered_at_once) {
  auto asked_before = std::make_shared<slot_request>(board->pool(), std::string(4, '\1'));
  auto asked_after = std::make_shared<slot_request>(board->pool(), std::string(4, '\1'));
  caf::anon_send(actor, link::reserve_atom_v, asked_before);
  settle();
  ASSERT_EQ(node.reservations.size(), 1u);
  lose_node();
  caf::anon_send(actor, link::reserve_atom_v, asked_after);
  settle();
  EXPECT_EQ(node.reservations.size(), 1u);
  auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(asked_before->wait(now).why_not, page_status::unreachable);
  EXPECT_EQ(asked_after->wait(now).why_not, page_status::unreachable);
}

TEST_F(session_actor_test, nothing_that_a_node_that_is_gone_was_asked_keeps_its_pool) {
  commit(0, 2, board->pool());
  auto asked = std::make_shared<slot_request>(board->pool(), std::string(4, '\1'));
  caf::anon_send(actor, link::reserve_atom_v, asked);
  settle();
  ASSERT_EQ(node.commits.size(), 1u);
  ASSERT_EQ(node.reservations.size(), 1u);
  std::weak_ptr<own_pool> lost = board->pool();
  asked.reset();
  lose_node();
  EXPECT_TRUE(lost.expired());
}

TEST_F(session_actor_test, a_pool_that_goes_is_not_unmapped_by_who_lets_go_of_it) {
  // The session's lock is released when the client unmaps the pool.
  const auto session = node.welcome.lock_index;
  std::weak_ptr<own_pool> lost = board->pool();
  lose_node();
  ASSERT_TRUE(lost.expired());
  EXPECT_FALSE(memory.session_is_dead(session)) << "a call, or a scheduler's thread, did it";
  board->unmapper->stop();
  board->unmapper->run();
  EXPECT_TRUE(memory.session_is_dead(session));
}

using link::member_question;

TEST_F(session_actor_test, owners_are_told_of_records_that_turned_out_to_be_false) {
  link();
  directory::withdraw_record record{key_space{}.key_of("gone"), memory.owner(), {4}};
  board->stale.add(record);
  pass(std::chrono::milliseconds(250));
  std::string expected;
  directory::append_withdraw(expected, record);
  EXPECT_EQ(told(member_question::withdraw), expected);
  EXPECT_EQ(asked.at(0).first, memory.owner());
  pass(std::chrono::milliseconds(250));
  EXPECT_EQ(told(member_question::withdraw), expected) << "once";
  unlink();
}

TEST_F(session_actor_test, owners_are_told_which_of_their_pages_were_read_twice_a_second) {
  link();
  const auto read_pages = [&] {
    for (std::uint32_t i = 0; i < 100; ++i) {
      board->uses.add(memory.owner(), {5}, {8});
      // No member has this incarnation, so the client cannot report to it.
      board->uses.add({9, 9}, {6}, {8});
    }
  };
  read_pages();
  pass(std::chrono::milliseconds(500));
  const auto used = told(member_question::used);
  const auto count = link::record_count<link::used_page>(used);
  ASSERT_GT(count.value_or(0), 0u);
  for (std::size_t i = 0; i < *count; ++i) {
    EXPECT_EQ(link::record_at<link::used_page>(used, i).slot, slot_id{5});
    EXPECT_EQ(link::record_at<link::used_page>(used, i).gen, generation{8});
  }
  asked.clear();
  pass(std::chrono::milliseconds(500));
  EXPECT_EQ(told(member_question::used), "") << "once";
  read_pages();
  pass(std::chrono::milliseconds(500));
  EXPECT_NE(told(member_question::used), "");
  unlink();
}

/// A prefetch of one page, whose question the member has not answered yet.
class prefetch_test : public client_fixture {
protected:
  void begin() {
    link();
    std::string keys;
    link::append_record(keys, key_space{}.key_of("one"));
    ASSERT_TRUE(board->prefetches.take(1));
    caf::anon_send(actor, link::lookup_atom_v, keys, link::from_here{});
    settle();
    ASSERT_EQ(asked.size(), 1u);
  }
  ~prefetch_test() override {
    EXPECT_EQ(board->prefetches.under_way(), 0u);
    asked.clear();
    unlink();
  }
};

TEST_F(prefetch_test, takes_no_more_answers_than_it_asked_questions) {
  directory::page_location somewhere;
  somewhere.holder = {1, 1};
  somewhere.gen = {2};
  somewhere.length_bytes = 4096;
  std::string answer;
  for (int answers = 0; answers < 3; ++answers)
    directory::append_answer(answer, {&somewhere, 1});
  begin();
  answer_asked(member_question::look_up, answer);
  EXPECT_EQ(remembered, std::vector<page_key>{key_space{}.key_of("one")});
}

TEST_F(prefetch_test, that_nobody_answers_remembers_nothing) {
  begin();
  answer_asked(member_question::look_up, std::nullopt);
  EXPECT_TRUE(remembered.empty());
}

std::string packed(std::initializer_list<slot_id> slots) {
  std::string blob;
  for (auto slot : slots)
    link::append_record(blob, slot);
  return blob;
}

TEST_F(session_actor_test, slots_outside_the_pool_are_refused_where_they_come_in) {
  auto end = memory.granules();
  std::string lengths;
  link::append_record(lengths, std::uint32_t{4096});
  link::append_record(lengths, std::uint32_t{8192});
  auto ask = [&](const std::string& answer) {
    auto request = std::make_shared<slot_request>(board->pool(), lengths);
    caf::anon_send(actor, link::reserve_atom_v, request);
    settle();
    answer_reservation(answer);
    return request->wait(std::chrono::steady_clock::now());
  };
  EXPECT_EQ(ask(packed({{end}, {1}})).why_not, page_status::refused);
  EXPECT_EQ(node.abandoned, packed({{end}, {1}})) << "the node has them back";
  EXPECT_EQ(ask(packed({{1}, {end - 1}})).why_not, page_status::refused) << "its end is outside";
  EXPECT_EQ(ask(packed({{1}, {2}, {4}})).why_not, page_status::refused) << "more than asked for";
  EXPECT_EQ(ask("bad").why_not, page_status::refused);
  EXPECT_EQ(ask(packed({link::no_slot, {end - 2}})).slots, packed({link::no_slot, {end - 2}}));
}

TEST_F(session_actor_test, leases_outside_the_pool_are_not_taken) {
  auto pool = board->pool();
  auto lease = [&](const std::string& slots) {
    pending_commit job;
    job.pool = pool;
    job.filled = std::string(sizeof(link::filled_slot), '\0');
    for (auto more = pool->leases.ask_for(1, 2, 2); more > 0; --more)
      link::append_record(job.next_lengths, std::uint32_t{4096});
    ASSERT_TRUE(board->window.enter(0, std::chrono::steady_clock::now()));
    if (board->commits.push(std::move(job)))
      caf::anon_send(actor, link::commit_atom_v, link::from_here{});
    settle();
    answer_commit(std::string(1, static_cast<char>(page_status::stored)), slots);
  };
  slot_id slot;
  lease(packed({{memory.granules()}, {3}}));
  EXPECT_FALSE(pool->leases.take(1, slot));
  lease(packed({{3}, {4}}));
  EXPECT_TRUE(pool->leases.take(1, slot));
}

TEST_F(session_actor_test, sets_that_come_during_a_commit_raise_the_number_of_leased_slots) {
  auto pool = board->pool();
  pool->leases.ask_for(1, 16, 100);
  commit(0, 1, pool);
  slot_id slot;
  for (int i = 0; i < 30; ++i)
    pool->leases.take(1, slot);
  accept_commit();
  EXPECT_EQ(pool->leases.ask_for(1, 16, 100), 60u - 16);
}

TEST_F(session_actor_test, slots_that_no_set_wants_go_back_to_the_node) {
  auto pool = board->pool();
  std::vector<slot_id> slots;
  for (std::uint32_t i = 0; i < 20; ++i)
    slots.push_back({i});
  slot_id taken;
  ASSERT_EQ(pool->leases.ask_for(1, 16, 20), 16u);
  pool->leases.add(1, 16, slots);
  pool->leases.take(1, taken);
  pass(std::chrono::milliseconds(500));
  EXPECT_EQ(node.abandoned, "") << "a set wanted one since the last beat";
  pass(std::chrono::milliseconds(500));
  EXPECT_EQ(node.abandoned, packed({{16}, {17}, {18}}));
}

TEST_F(session_actor_test,
       sets_that_are_not_acknowledged_fill_no_more_than_their_part_of_the_pool) {
  const auto part = board->pool()->memory.page_bytes() / set_window::parts_of_pool;
  const auto at_once = std::chrono::steady_clock::now();
  ASSERT_TRUE(board->window.enter(part, at_once));
  EXPECT_FALSE(board->window.enter(1, at_once));
  board->window.leave(part, 1, {});
}

TEST_F(session_actor_test, tells_the_node_what_calls_asked_for_and_nothing_twice) {
  const auto pass_beats = [this](int beats) {
    for (int i = 0; i < beats; ++i)
      pass(std::chrono::milliseconds(250));
  };
  pass_beats(12);
  EXPECT_TRUE(node.calls.empty());
  calls.describe(page_key{}, {"door", {"model"}, {}});
  pass_beats(12);
  ASSERT_EQ(node.calls.size(), 1u);
  EXPECT_EQ(node.calls[0].spaces.at(0).fields, std::vector<std::string>{"model"});
  pass_beats(24);
  EXPECT_EQ(node.calls.size(), 1u);
  calls.note_unasked(page_key{}, "late", 1, std::chrono::steady_clock::now());
  ask<bool>(actor, link::leave_atom_v, link::from_here{});
  ASSERT_EQ(node.calls.size(), 2u) << "a client that ends tells the last calls";
}

} // namespace
} // namespace peercache::client
