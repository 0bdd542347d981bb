// Tests of a router's query at one of two nodes, whose shards answer, are frozen, or refuse.

#include "actors/overlap/overlap_actor.hpp"

#include "tests/actors/cluster_fixture.hpp"

#include <nlohmann/json.hpp>
#include <optional>

namespace peercache::actors {
namespace overlap_actor_test {

class overlap_actor_test : public cluster_fixture {
protected:
  void SetUp() override {
    overlap_options options;
    options.own = here.id;
    options.directory = shard_here;
    overlap = system.spawn(run_overlap, options);
  }
  void TearDown() override {
    stop(overlap);
    if (frozen)
      caf::anon_send_exit(frozen, caf::exit_reason::kill);
    settle();
  }

  void tell_all(const topology_ptr& cluster) {
    tell_everyone(cluster);
    caf::anon_send(overlap, topology_atom_v, cluster);
    settle();
  }

  /// Sends the query to the actor; its answer will be added to `answers`.
  void ask(const std::string& body, bool by_hash = true, std::chrono::milliseconds ago = {}) {
    auto call = std::make_shared<overlap_call>();
    call->body = body;
    call->by_hash = by_hash;
    call->arrived = system.clock().now() - ago;
    call->reply = [this](metrics::api_answer answer) { answers.push_back(std::move(answer)); };
    caf::anon_send(overlap, locate_atom_v, overlap_call_ptr{call});
    settle();
  }
  static std::string query(const std::vector<std::string>& hashes) {
    return nlohmann::json{
        {"block_size", 16}, {"namespaces", {nlohmann::json::array()}}, {"seq_hashes", hashes}}
        .dump();
  }
  nlohmann::json tiers(const std::string& node) {
    return nlohmann::json::parse(answers.back().json)["default"][node];
  }
  /// Publishes to both shards that the member `holder` has the page.
  void publish(const std::string& name, const discovery::member& holder) {
    for (const auto& shard : {shard_here, shard_there})
      caf::anon_send(shard, publish_atom_v, publication(key_named(name), holder), std::uint64_t{0},
                     std::uint64_t{0});
    settle();
  }

  overlap_actor overlap;
  caf::actor frozen;
  std::vector<metrics::api_answer> answers;
};

TEST_F(overlap_actor_test, tells_the_tokens_that_each_node_has) {
  tell_all(both());
  for (const auto* name : {"a", "b", "c"})
    publish(name, here);
  publish("a", there);
  ask(query({"a", "b", "c", "d"}));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 200);
  EXPECT_EQ(tiers("here")["longest_matched"], 48) << answers[0].json;
  EXPECT_EQ(tiers("here")["CPU"], 48);
  EXPECT_EQ(tiers("there")["longest_matched"], 16);
}

TEST_F(overlap_actor_test, a_node_without_a_cluster_says_so) {
  ask(query({"a"}));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 503);
}

TEST_F(overlap_actor_test, what_cannot_be_read_is_refused_with_the_reason) {
  tell_all(both());
  ask("{}");
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 400);
  EXPECT_NE(answers[0].json.find("block_size"), std::string::npos) << answers[0].json;
}

/// A query whose deadline passed while it waited in the mailbox is not even parsed.
TEST_F(overlap_actor_test, a_query_that_is_looked_at_too_late_is_told_to_come_again) {
  tell_all(both());
  ask("{}", true, overlap_options{}.patience);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 503);
}

/// Keys whose first owner is frozen are asked of the next owner after half of the time, and a query
/// is answered by its deadline with what is known by then.
TEST_F(overlap_actor_test, a_frozen_owner_costs_half_of_the_time_and_no_more) {
  const auto freeze = [](caf::event_based_actor* actor, const std::string&) -> caf::behavior {
    actor->set_default_handler(caf::skip);
    return {[](caf::ok_atom) {}};
  };
  frozen = system.spawn(freeze, std::string{});
  auto cluster =
      topology_of({{here, shard_here}, {there, caf::actor_cast<directory_actor>(frozen)}}, 1);
  overlap_options options;
  // An id that no node has, so that owners are asked in the order of the ring.
  options.own = node_id_of("nobody");
  options.directory = shard_here;
  stop(overlap);
  overlap = system.spawn(run_overlap, options);
  tell_all(cluster);
  std::vector<std::string> names;
  for (int i = 0; i < 32; ++i)
    names.push_back("page " + std::to_string(i));
  for (const auto& name : names)
    publish(name, here);
  ask(query(names));
  EXPECT_TRUE(answers.empty()) << "no key has the frozen node as its first owner";
  pass(options.patience / 2 + std::chrono::milliseconds(1));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(tiers("here")["longest_matched"], 32 * 16);
}

class busy_overlap_test : public overlap_actor_test {
protected:
  /// Freezes the only shard, so that every query stays open until its deadline.
  void SetUp() override {
    const auto freeze = [](caf::event_based_actor* actor, const std::string&) -> caf::behavior {
      actor->set_default_handler(caf::skip);
      return {[](caf::ok_atom) {}};
    };
    frozen = system.spawn(freeze, std::string{});
    options.own = here.id;
    options.directory = caf::actor_cast<directory_actor>(frozen);
    overlap = system.spawn(run_overlap, options);
    tell_all(topology_of({{here, caf::actor_cast<directory_actor>(frozen)}}, 1));
  }

  overlap_options options;
};

TEST_F(busy_overlap_test, more_queries_than_may_be_open_are_told_to_come_again) {
  for (std::size_t i = 0; i < overlap_queries_max; ++i)
    ask(query({"a"}));
  EXPECT_TRUE(answers.empty());
  ask(query({"a"}));
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].status, 503);
  pass(options.patience + std::chrono::milliseconds(1));
  EXPECT_EQ(answers.size(), overlap_queries_max + 1) << "all are answered by their deadline";
  EXPECT_EQ(answers.back().status, 200);
}

TEST_F(busy_overlap_test, more_keys_than_may_be_open_are_told_to_come_again) {
  const auto large = query(std::vector<std::string>(overlap_question::keys_max, "a"));
  for (int round = 0; round < 2; ++round) {
    answers.clear();
    for (std::size_t i = 0; i < overlap_keys_open_max / overlap_question::keys_max; ++i)
      ask(large);
    EXPECT_TRUE(answers.empty());
    ask(query({"a"}));
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].status, 503);
    pass(options.patience + std::chrono::milliseconds(1));
    EXPECT_EQ(answers.back().status, 200);
  }
}

} // namespace overlap_actor_test
} // namespace peercache::actors
