// Tests of what a router learns of blocks on GPUs, which sessions of this host and of another host
// report until they end; and of the query in its binary form.

#include "actors/gateway/gateway_actor.hpp"
#include "actors/overlap/overlap_actor.hpp"
#include "tests/actors/cluster_fixture.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace peercache::actors::overlap_gpu_test {
namespace {

/// A client that ignores all messages; the second argument is not used.
session_listener::behavior_type engine_client(session_listener::pointer, const int*) {
  return {[](view_atom, const std::string&) {}, [](beat_atom, from_here) {}};
}

/// An actor that handles no message, like one in a frozen process.
caf::behavior freeze(caf::event_based_actor* actor, const std::string&) {
  actor->set_default_handler(caf::skip);
  return {[](caf::ok_atom) {}};
}

class overlap_gpu_test : public cluster_fixture {
protected:
  static constexpr std::size_t gpu_keys = 4;
  int unused = 0;
  session_listener client = system.spawn(engine_client, &unused);
  bool held = false; ///< Whether session locks are held, as by clients that have the pool mapped.
  overlap_actor overlap_here = spawn_overlap(here, shard_here);
  overlap_actor overlap_there = spawn_overlap(there, shard_there);
  gateway_actor gateway_here = spawn_gateway(here, overlap_here);
  gateway_actor gateway_there = spawn_gateway(there, overlap_there);

  void SetUp() override { tell_all(); }
  ~overlap_gpu_test() override {
    stop(gateway_here);
    stop(gateway_there);
    stop(overlap_here);
    stop(overlap_there);
    if (client)
      stop(client);
  }

  overlap_actor spawn_overlap(const discovery::member& who, const directory_actor& shard) {
    overlap_options options;
    options.own = who.id;
    options.directory = shard;
    options.gpu_keys = gpu_keys;
    return system.spawn(run_overlap, options);
  }
  gateway_actor spawn_gateway(const discovery::member& who, const overlap_actor& overlap) {
    gateway_options options;
    options.self = who;
    options.pool = pool;
    options.overlap = overlap;
    options.ready = [](bool, const std::string&) {};
    options.session_is_dead = [](std::uint32_t) { return false; };
    options.session_is_held = [this](std::uint32_t) { return held; };
    return system.spawn(run_gateway, std::move(options));
  }
  void tell_all() {
    auto cluster = std::make_shared<topology>(*both());
    for (auto& peer : cluster->peers)
      peer.gateway = peer.self.id == here.id ? gateway_here : gateway_there;
    tell_everyone(cluster);
    for (const auto& overlap : {overlap_here, overlap_there})
      caf::anon_send(overlap, topology_atom_v, topology_ptr{cluster});
    settle();
  }

  std::uint64_t open(const gateway_actor& gateway) {
    const auto welcome =
        ask<session_welcome>(gateway, session_atom_v, std::string{"client"}, client);
    EXPECT_TRUE(welcome);
    return welcome ? welcome->session : 0;
  }
  /// Reports to the gateway that the blocks of these names are stored on the session's GPU.
  caf::expected<bool> store(const gateway_actor& gateway, std::uint64_t session,
                            const std::vector<std::string>& names,
                            std::uint32_t rank = gpu_report::no_rank) {
    gpu_report report;
    report.rank = rank;
    for (const auto& name : names)
      report.stored.push_back(key_named(name).prefix());
    return ask<bool>(gateway, gpu_atom_v, session, encode(report));
  }

  static overlap_query query(const std::vector<std::string>& hashes) {
    overlap_query asked;
    asked.spaces = {{}};
    asked.block_tokens = 16;
    asked.hashes = hashes;
    return asked;
  }
  /// Returns the answer of the node `here` to a query in its binary form.
  std::vector<overlap_match> matches(const overlap_query& asked) {
    const auto answer = ask<std::string>(gateway_here, locate_atom_v, encode(asked));
    EXPECT_TRUE(answer);
    const auto read = answer ? decode_overlap_matches(*answer) : std::nullopt;
    EXPECT_TRUE(read);
    return read.value_or(std::vector<overlap_match>{});
  }
  std::uint64_t gpu_at(const std::string& node, const std::vector<std::string>& hashes) {
    for (const auto& match : matches(query(hashes)))
      if (match.node == node)
        return match.gpu;
    return 0;
  }
};

TEST_F(overlap_gpu_test, each_node_tells_what_its_own_engines_hold) {
  EXPECT_TRUE(*store(gateway_here, open(gateway_here), {"a", "b"}, 1));
  EXPECT_TRUE(*store(gateway_there, open(gateway_there), {"a", "b", "c"}));
  const auto found = matches(query({"a", "b", "c", "d"}));
  ASSERT_EQ(found.size(), 2u);
  const auto& mine = found[0].node == "here" ? found[0] : found[1];
  const auto& other = found[0].node == "here" ? found[1] : found[0];
  EXPECT_EQ(mine.gpu, 32u);
  EXPECT_EQ(mine.longest, 32u);
  EXPECT_EQ(mine.memory, 0u);
  EXPECT_EQ(mine.gpu_by_rank.at(1), 32u);
  EXPECT_EQ(other.gpu, 48u);
  EXPECT_TRUE(other.gpu_by_rank.empty());
}

TEST_F(overlap_gpu_test, http_tells_it_too) {
  store(gateway_there, open(gateway_there), {"a"}, 2);
  auto call = std::make_shared<overlap_call>();
  std::string said;
  call->body = nlohmann::json{
      {"block_size", 16},
      {"namespaces", {nlohmann::json::array()}},
      {"seq_hashes",
       {"a", "b"}}}.dump();
  call->by_hash = true;
  call->arrived = system.clock().now();
  call->reply = [&said](const metrics::api_answer& answer) { said = answer.json; };
  caf::anon_send(overlap_here, locate_atom_v, overlap_call_ptr{call});
  settle();
  EXPECT_EQ(nlohmann::json::parse(said), nlohmann::json::parse(R"({"default": {"there":
      {"longest_matched": 16, "GPU": 16, "DP": {"2": 16}, "CPU": 0, "DISK": 0}}})"));
}

TEST_F(overlap_gpu_test, a_session_that_ends_takes_its_blocks_along) {
  const auto session = open(gateway_there);
  store(gateway_there, session, {"a"});
  EXPECT_EQ(gpu_at("there", {"a"}), 16u);
  caf::anon_send(gateway_there, leave_atom_v, session);
  settle();
  EXPECT_EQ(gpu_at("there", {"a"}), 0u);
  EXPECT_FALSE(store(gateway_there, session, {"a"}));
}

/// After a session's connection is lost, nobody reports what its engine evicts, even if the engine
/// lives. So the node must forget the blocks that the session reported.
TEST_F(overlap_gpu_test, a_lost_connection_ends_what_was_told) {
  held = false;
  const auto session = open(gateway_there);
  held = true; // The client's process lives and holds its session's lock.
  store(gateway_there, session, {"a"});
  EXPECT_EQ(gpu_at("there", {"a"}), 16u);
  stop(client);
  EXPECT_EQ(gpu_at("there", {"a"}), 0u);
  EXPECT_FALSE(store(gateway_there, session, {"a"}));
}

TEST_F(overlap_gpu_test, a_node_without_blocks_on_gpus_is_asked_once_a_second) {
  EXPECT_EQ(gpu_at("there", {"a"}), 0u);
  store(gateway_there, open(gateway_there), {"a"});
  EXPECT_EQ(gpu_at("there", {"a"}), 0u);
  pass(overlap_options{}.windowless_for + std::chrono::milliseconds(1));
  EXPECT_EQ(gpu_at("there", {"a"}), 16u);
}

TEST_F(overlap_gpu_test, a_node_that_does_not_answer_costs_half_of_the_time_once_a_second) {
  auto frozen = system.spawn(freeze, std::string{});
  auto living = std::exchange(gateway_there, caf::actor_cast<gateway_actor>(frozen));
  tell_all();
  auto first = self->request(gateway_here, caf::infinite, locate_atom_v, encode(query({"a"})));
  settle();
  pass(overlap_options{}.patience / 2 + std::chrono::milliseconds(1));
  bool answered = false;
  first.receive([&](const std::string&) { answered = true; }, [](const caf::error&) {});
  EXPECT_TRUE(answered);
  EXPECT_TRUE(matches(query({"a"})).empty()) << "the second query does not wait";
  caf::anon_send_exit(frozen, caf::exit_reason::kill);
  gateway_there = std::move(living);
}

TEST_F(overlap_gpu_test, a_query_that_came_too_late_is_refused_and_condemns_no_node) {
  store(gateway_there, open(gateway_there), {"a"});
  const auto ask_here = [this](std::chrono::milliseconds age) {
    const std::chrono::nanoseconds came = (system.clock().now() - age).time_since_epoch();
    return self->request(overlap_here, caf::infinite, locate_atom_v, encode(query({"a"})),
                         std::int64_t{came.count()}, from_here{});
  };
  const auto patience = overlap_options{}.patience;
  bool refused = false;
  auto old = ask_here(patience);
  settle();
  old.receive([](const std::string&) {}, [&](const caf::error&) { refused = true; });
  EXPECT_TRUE(refused);
  auto frozen = system.spawn(freeze, std::string{});
  auto living = std::exchange(gateway_there, caf::actor_cast<gateway_actor>(frozen));
  tell_all();
  auto late = ask_here(patience - std::chrono::milliseconds(10));
  settle();
  pass(std::chrono::milliseconds(11));
  late.receive([](const std::string&) {}, [](const caf::error&) { ADD_FAILURE(); });
  gateway_there = std::move(living);
  tell_all();
  caf::anon_send_exit(frozen, caf::exit_reason::kill);
  EXPECT_EQ(gpu_at("there", {"a"}), 16u);
}

TEST_F(overlap_gpu_test, only_the_node_in_question_is_told_of) {
  store(gateway_here, open(gateway_here), {"a"});
  store(gateway_there, open(gateway_there), {"a"});
  auto asked = query({"a"});
  asked.node = "there";
  const auto found = matches(asked);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].node, "there");
}

TEST_F(overlap_gpu_test, the_binary_form_refuses_what_makes_no_sense) {
  EXPECT_FALSE(ask<std::string>(gateway_here, locate_atom_v, std::string{"no query"}));
  auto asked = query({"a"});
  asked.block_tokens = 0;
  EXPECT_FALSE(ask<std::string>(gateway_here, locate_atom_v, encode(asked)));
  EXPECT_TRUE(matches(query({})).empty());
  EXPECT_FALSE(ask<std::string>(gateway_here, gpu_atom_v, std::string{"no question"}));
  EXPECT_FALSE(*ask<bool>(gateway_here, gpu_atom_v, open(gateway_here), std::string{"no report"}));
}

TEST_F(overlap_gpu_test, numbers_of_the_window_are_counted) {
  store(gateway_here, open(gateway_here), {"a", "b", "c", "d", "e"});
  const auto now = samples_of(overlap_here);
  EXPECT_EQ(now.count(metric::gpu_keys), gpu_keys);
  EXPECT_EQ(now.count(metric::gpu_reporters), 1u);
  EXPECT_EQ(now.count(metric::gpu_refused_total), 1u);
}

} // namespace
} // namespace peercache::actors::overlap_gpu_test
