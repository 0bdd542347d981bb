// Tests of when the overview actor asks the nodes of its cluster, and of the faults that it reports
// to collectors of metrics.

#include "actors/monitoring/overview_actor.hpp"

#include "common/fault_ids.hpp"
#include "discovery/view_codec.hpp"
#include "tests/link/named_members.hpp"
#include "tests/support/actor_fixture.hpp"

#include <map>

namespace peercache::actors {
namespace overview_actor_test {

using namespace std::chrono_literals;
using fault_counts = std::map<std::string, std::size_t>;

/// The overview actor of node `a`. Node `b` is in the view, but there is no connection to it.
class overview_actor_test : public test::actor_fixture {
protected:
  overview_actor_test() {
    overview_options options;
    options.cluster = "prod";
    options.self = a;
    options.gateway = caf::actor_cast<gateway_actor>(gateway);
    options.board = board;
    overview = system.spawn(run_overview, options);
    settle();
  }
  ~overview_actor_test() override {
    caf::anon_send_exit(overview, caf::exit_reason::kill);
    caf::anon_send_exit(gateway, caf::exit_reason::kill);
    settle();
  }

  /// Plays the gateway of node `a`.
  static caf::behavior play_gateway(caf::event_based_actor*, overview_actor_test* test) {
    return {[test](status_atom) {
              ++test->asked;
              return test->report();
            },
            [](history_atom, std::uint64_t, std::uint64_t) { return history_report{}; }};
  }
  node_report report() const {
    node_report said;
    said.member = discovery::encode_member(a);
    said.unready_reason = ready ? "" : "joining";
    said.samples.set(metric::ready, ready);
    said.samples.set(metric::view_term, 1);
    said.samples.set(metric::view_version, 1);
    return said;
  }
  /// Gives the overview a view of both nodes that `leader` leads.
  void lead(const discovery::member& leader) {
    auto made = std::make_shared<link::topology>(
        *topology_of({{a, directory_actor{}}, {b, directory_actor{}}}, 1));
    made->view.masters = {leader.name};
    for (auto& peer : made->peers)
      peer.tried = true;
    caf::anon_send(overview, topology_atom_v, topology_ptr{made});
    settle();
  }
  void scrape() { board->scraped.store(system.clock().now()); }
  void look() { board->looked.store(system.clock().now()); }
  /// Lets `time` pass, in steps of 250 ms, the overview's turns.
  void wait(std::chrono::milliseconds time) {
    for (auto left = time; left > 0ms; left -= 250ms)
      pass(250ms);
  }

  const discovery::member a = member_named("a", 1), b = member_named("b", 2);
  std::shared_ptr<http_board> board = std::make_shared<http_board>();
  bool ready = true;
  int asked = 0; ///< How often the overview has asked node `a` for its status.
  caf::actor gateway = system.spawn(play_gateway, this);
  overview_actor overview;
};

TEST_F(overview_actor_test, nobody_is_asked_while_nobody_wants_to_know) {
  lead(a);
  wait(10s);
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(board->faults.load()->empty());
}

TEST_F(overview_actor_test, the_leader_tells_faults_to_who_collects_metrics) {
  lead(a);
  scrape();
  wait(1s);
  EXPECT_EQ(*board->faults.load(), (fault_counts{{fault_ids::node_silent, 1}}));
  EXPECT_EQ(asked, 1);
  wait(9s);
  EXPECT_EQ(asked, 1) << "ten seconds lie between two questions";
  wait(2s);
  EXPECT_EQ(asked, 2);
  EXPECT_TRUE(board->history.load()->points.empty()) << "the history is for those who look";
}

TEST_F(overview_actor_test, what_nodes_remember_is_shared_once_a_turn_and_only_when_it_changed) {
  lead(a);
  wait(250ms);
  look();
  const auto before = board->history.load();
  pass(250ms); // In this turn node `a` answers; `b` cannot be asked.
  EXPECT_EQ(board->history.load(), before);
  pass(250ms);
  const auto shared = board->history.load();
  EXPECT_NE(shared, before);
  EXPECT_TRUE(shared->complete);
  pass(250ms);
  EXPECT_EQ(board->history.load(), shared) << "nobody has answered since";
}

TEST_F(overview_actor_test, a_fault_that_is_over_is_told_no_more) {
  ready = false;
  lead(a);
  scrape();
  wait(1s);
  EXPECT_EQ(board->faults.load()->count(fault_ids::node_unready), 1u);
  ready = true;
  scrape();
  wait(11s);
  EXPECT_EQ(board->faults.load()->count(fault_ids::node_unready), 0u);
}

TEST_F(overview_actor_test, a_node_that_does_not_lead_tells_no_faults) {
  lead(b);
  scrape();
  wait(2s);
  EXPECT_EQ(asked, 0);
  look();
  wait(2s);
  EXPECT_GT(asked, 0) << "whoever looks at its page sees the cluster";
  EXPECT_TRUE(board->faults.load()->empty());
}

TEST_F(overview_actor_test, a_node_in_no_cluster_tells_its_own_faults) {
  ready = false;
  scrape();
  wait(1s);
  EXPECT_EQ(board->faults.load()->count(fault_ids::not_in_cluster), 1u);
}

TEST_F(overview_actor_test, nothing_is_told_once_nobody_collects_any_metrics) {
  lead(a);
  scrape();
  wait(1s);
  ASSERT_FALSE(board->faults.load()->empty());
  wait(121s);
  EXPECT_TRUE(board->faults.load()->empty());
  const auto before = asked;
  wait(30s);
  EXPECT_EQ(asked, before);
}

} // namespace overview_actor_test
} // namespace peercache::actors
