// Tests of `clear` interleaved with other events: afterwards no page that was set before the clear
// may be a hit.

#include "clear_cluster.hpp"

#include <atomic>
#include <string>
#include <thread>

namespace peercache::real::clear_test {
namespace {

struct interleaving {
  const char* name;
  void (*run)(cluster&);
};

const interleaving interleavings[] = {
    {"the_engine_that_set_them_clears", [](cluster& all) { all.clear_for_certain(0); }},
    {"an_engine_that_has_read_them_clears", [](cluster& all) { all.clear_for_certain(2); }},
    {"an_engine_that_was_restarted_clears",
     [](cluster& all) {
       all.restart_engine(1);
       all.clear_for_certain(1);
       all.restart_engine(2); // This engine starts after the clear.
     }},
    {"pages_are_not_committed_yet",
     [](cluster& all) {
       set(all.engine(0), cleared, cluster::all_pages(), pages, 0);
       all.clear_for_certain(0);
       EXPECT_TRUE(all.engine(0).flush(clock::now() + patience));
     }},
    {"another_engine_has_not_committed_yet",
     [](cluster& all) {
       set(all.engine(0), cleared, cluster::all_pages(), pages, 0);
       all.clear_for_certain(1);
       EXPECT_TRUE(all.engine(0).flush(clock::now() + patience));
     }},
    {"others_set_all_the_while",
     [](cluster& all) {
       std::atomic<bool> stop{false};
       std::atomic<std::uint32_t> rounds{0};
       std::thread writer([&] {
         for (; !stop; ++rounds)
           set(all.engine(1), cleared, 2000 + rounds, 1, 0);
       });
       EXPECT_TRUE(within(patience, [&] { return rounds > 2; }));
       // Pages of this round and later ones are set during or after the clear: they may be hits or
       // not.
       const auto before = rounds.load();
       all.clear_for_certain(0);
       for (std::size_t i = 0; i < cluster::count; ++i)
         EXPECT_EQ(hits_of(all.engine(i), cleared, 2000, before, 0), 0u) << "engine " << i;
       const auto now = rounds.load();
       EXPECT_TRUE(within(patience, [&] { return rounds > now + 2; }));
       stop = true;
       writer.join();
       for (std::size_t i = 0; i < cluster::count; ++i)
         EXPECT_EQ(hits_of(all.engine(i), cleared, 2000, before, 0), 0u) << "engine " << i;
     }},
    {"others_read_all_the_while",
     [](cluster& all) {
       std::atomic<bool> stop{false};
       std::atomic<std::uint32_t> rounds{0};
       std::thread reader([&] {
         while (!stop) {
           hits_of(all.engine(2), cleared, 0, cluster::all_pages(), 0);
           ++rounds;
         }
       });
       EXPECT_TRUE(within(patience, [&] { return rounds > 2; }));
       all.clear_for_certain(0);
       const auto now = rounds.load();
       EXPECT_TRUE(within(patience, [&] { return rounds > now + 2; }));
       stop = true;
       reader.join();
     }},
    {"two_engines_clear_at_once",
     [](cluster& all) {
       client::clear_result there;
       std::thread second([&] { there = all.clear(1); });
       const auto here = all.clear(0);
       second.join();
       EXPECT_TRUE(here.certain) << here.why_not;
       EXPECT_TRUE(there.certain) << there.why_not;
       all.watch_all();
     }},
    {"it_is_cleared_ten_times",
     [](cluster& all) {
       for (std::uint32_t round = 0; round < 10; ++round) {
         set(all.engine(round % 3), cleared, 3000, pages, 0);
         EXPECT_TRUE(all.engine(round % 3).flush(clock::now() + patience));
         all.clear_for_certain((round + 1) % 3);
         for (std::size_t i = 0; i < cluster::count; ++i)
           EXPECT_EQ(hits_of(all.engine(i), cleared, 3000, pages, 0), 0u) << round;
       }
     }},
    {"the_command_line_clears",
     [](cluster& all) {
       const auto& node = all.node(1);
       const auto said = run_cli({"clear", std::string(cleared), "--yes", "-o", "json", "--node",
                                  node.address(), "--cluster", node.launch().cluster});
       EXPECT_EQ(said.exit_code, 0) << said.output;
       EXPECT_EQ(said.json()["certain"], true) << said.output;
       all.watch_all();
     }},
    {"pages_are_on_disk_only",
     [](cluster& all) {
       all.push_out(0);
       all.push_out(1);
       all.clear_for_certain(2);
     }},
    {"a_node_leaves_afterwards_and_comes_back_with_its_disk",
     [](cluster& all) {
       all.settle_disk(1);
       all.clear_for_certain(0);
       all.stop_node(1);
       all.restart(1);
     }},
    {"a_node_is_killed_afterwards_and_comes_back_with_its_disk",
     [](cluster& all) {
       all.settle_disk(1);
       all.clear_for_certain(0);
       all.kill_node(1);
       all.restart(1);
     }},
    {"a_disk_was_away",
     [](cluster& all) {
       all.settle_disk(1);
       all.stop_node(1);
       all.restart_without_disk(1);
       all.wait_for_members(3);
       all.clear_for_certain(0);
       all.restart_with_disk(1);
     }},
    {"a_node_had_left_before_and_comes_back_with_its_disk",
     [](cluster& all) {
       all.settle_disk(1);
       all.stop_node(1);
       all.wait_for_view(0, 2);
       all.clear_for_certain(0);
       all.restart(1);
     }},
    {"a_node_was_killed_just_before",
     [](cluster& all) {
       all.settle_disk(1);
       all.kill_node(1);
       all.clear_but_for(0, 1, milliseconds(500));
       all.restart(1);
       all.wait_for_members(3);
       all.wait_until_gone(1);
       all.clear_for_certain(2);
     }},
    {"a_node_was_given_up_and_comes_back_all_the_same",
     [](cluster& all) {
       all.settle_disk(1);
       all.kill_node(1);
       all.wait_for_view(0, 2);
       all.clear_but_for(0, 1, clear_time);
       const auto& node = all.node(0);
       const auto said = run_cli({"clear", std::string(cleared), "--yes", "--gone", all.name(1),
                                  "--node", node.address(), "--cluster", node.launch().cluster});
       EXPECT_EQ(said.exit_code, 0) << said.output;
       all.restart(1);
       all.watch_engine(1);
     }},
    {"a_node_is_frozen_for_a_moment",
     [](cluster& all) {
       all.freeze(1);
       all.clear_but_for(0, 1, milliseconds(700));
       all.thaw(1);
       all.wait_until_gone(1);
     }},
    {"a_node_is_frozen_until_the_cluster_gives_it_up",
     [](cluster& all) {
       all.freeze(1);
       all.wait_for_view(0, 2);
       all.clear_but_for(0, 1, clear_time);
       all.thaw(1);
       all.wait_for_members(3);
       all.wait_until_gone(1);
       all.clear_for_certain(0);
     }},
    {"all_nodes_restart_afterwards",
     [](cluster& all) {
       for (std::size_t i = 0; i < cluster::count; ++i)
         all.settle_disk(i);
       all.clear_for_certain(0);
       for (std::size_t i = 0; i < cluster::count; ++i)
         all.node(i).ask_to_stop();
       for (std::size_t i = 0; i < cluster::count; ++i)
         all.stop_node(i);
       for (std::size_t i = 0; i < cluster::count; ++i)
         all.restart(i);
     }},
    {"all_nodes_are_killed_afterwards_and_start_one_by_one",
     [](cluster& all) {
       for (std::size_t i = 0; i < cluster::count; ++i)
         all.settle_disk(i);
       all.clear_for_certain(0);
       for (std::size_t i = 0; i < cluster::count; ++i)
         all.kill_node(i);
       // The node that starts first founds the cluster, and knows of the clear only from its own
       // disk.
       all.restart(2, {all.node(2).address()});
       all.wait_for_view(2, 1);
       EXPECT_FALSE(all.finds_any(2));
       all.restart(0, {all.node(2).address()});
       all.restart(1, {all.node(2).address()});
     }},
    {"an_engine_has_no_node",
     [](cluster& all) {
       all.clear_for_certain(0);
       all.kill_node(1); // The engine of node 1 reads on from the other nodes.
       for (int looks = 0; looks < 20; ++looks)
         EXPECT_FALSE(all.finds_any(1));
       all.restart(1);
     }},
    {"a_node_restarts_while_it_is_cleared",
     [](cluster& all) {
       all.settle_disk(1);
       // While the node restarts, this thread clears until a clear says that it is certain. From
       // then on all engines are watched, because that answer must be true.
       std::atomic<bool> certain{false};
       std::thread clearing([&] {
         for (auto until = clock::now() + patience; !certain && clock::now() < until;)
           certain = all.clear(0, milliseconds(500)).certain;
         all.watch_all();
       });
       all.restart(1);
       clearing.join();
       EXPECT_TRUE(certain);
     }},
};

class clear_interleaved : public testing::TestWithParam<interleaving> {
protected:
  void SetUp() override { all.start(); }
  void TearDown() override { all.stop(); }

  cluster all;
};

TEST_P(clear_interleaved, no_page_of_before_is_a_hit) {
  GetParam().run(all);
  if (HasFatalFailure())
    return;
  all.wait_for_members(3);
  all.finish();
}

INSTANTIATE_TEST_SUITE_P(when, clear_interleaved, testing::ValuesIn(interleavings),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace peercache::real::clear_test
