#include "cli/cluster_health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::cli::cluster_health_test {

namespace {

using metrics::metric;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void set(node_answer& answer, metric id, double value) {
  answer.status->samples.set(id, value);
}

/// A cluster of three masters without any fault; a test changes what it needs.
struct cluster {
  cluster() {
    for (std::uint64_t i = 1; i <= 3; ++i) {
      auto name = "node-" + std::to_string(i);
      view.members.push_back({.name = name, .id = node_id_of(name), .inc = {i, i}});
      view.masters.push_back(name);
      node_answer answer{view.members.back(), client::node_status{}, {}};
      answer.status->self = view.members.back();
      set(answer, metric::ready, 1);
      set(answer, metric::view_term, 4);
      set(answer, metric::view_version, 2);
      set(answer, metric::links, 2);
      answers.push_back(answer);
    }
    view.term = 4;
    view.version = 2;
  }
  void silence(std::size_t node) {
    answers[node].status.reset();
    answers[node].fault = {errc::timed_out, "no answer"};
  }
  std::vector<std::string> faults() const { return faults_of(asked, view, answers); }

  client::node_status asked;
  discovery::view view;
  std::vector<node_answer> answers;
};

} // namespace

TEST(cluster_health, a_cluster_that_is_well_has_no_faults_nor_one_that_drains) {
  cluster c;
  EXPECT_THAT(c.faults(), IsEmpty());
  set(c.answers[1], metric::draining, 1);
  EXPECT_THAT(c.faults(), IsEmpty());
  EXPECT_EQ(state_of(c.answers[1]), "draining");
}

TEST(cluster_health, a_node_in_no_view_is_not_well) {
  cluster c;
  c.view = {};
  c.answers.clear();
  c.asked.self.name = "node-9";
  c.asked.unready_reason = "no seed answers";
  EXPECT_THAT(c.faults(), ElementsAre("node-9 is in no cluster: no seed answers"));
}

TEST(cluster_health, a_silent_node_and_an_unready_one_are_named_with_the_reason) {
  cluster c;
  c.silence(0);
  set(c.answers[2], metric::ready, 0);
  c.answers[2].status->unready_reason = "it recovers its disk";
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("node-1 does not answer (no answer)"),
                                      HasSubstr("node-3 is not ready: it recovers its disk")));
}

TEST(cluster_health, without_a_majority_of_masters_views_are_frozen) {
  cluster c;
  c.silence(0);
  c.silence(1);
  EXPECT_THAT(c.faults().back(), HasSubstr("1 of 3 masters answer, no majority"));
}

TEST(cluster_health, a_fragment_says_how_many_masters_it_has_lost) {
  cluster c;
  for (const auto* name : {"gone-1", "gone-2"})
    c.view.former_masters.push_back({.name = name, .id = node_id_of(name), .inc = {9, 9}});
  c.view.former_masters.push_back(c.view.members[0]);
  EXPECT_THAT(c.faults(),
              ElementsAre(HasSubstr("2 of the 3 masters of the view before it were lost (gone-1, "
                                    "gone-2), and the others go on")));
}

TEST(cluster_health, who_is_gone_is_a_fault_with_the_reason_and_what_to_do) {
  cluster c;
  c.view.gone.push_back(
      {"node-4", "10.0.0.4", 31998, 1'800'000'000'999, discovery::departure::connection_broke});
  c.view.gone.push_back(
      {"node-5", "10.0.0.5", 31998, 1'800'000'060'000, discovery::departure::silent});
  EXPECT_THAT(
      c.faults(),
      ElementsAre(AllOf(HasSubstr("node-4 (10.0.0.4:31998) is gone since 2027-01-15 08:00:00 UTC "
                                  "(connection broke)"),
                        HasSubstr("`peercache forget node-4`")),
                  HasSubstr("node-5 (10.0.0.5:31998) is gone since 2027-01-15 08:01:00 UTC "
                            "(silent)")));
}

TEST(cluster_health, a_seed_that_is_in_no_view_is_named_by_its_address_once) {
  cluster c;
  for (auto node : {0, 2})
    c.answers[node].status->membership.missing_seeds = {"10.0.0.9:31998"};
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("no node of the cluster is at 10.0.0.9:31998, "
                                                "which discovery.seeds of node-1, node-3 names")));
}

/// A live node also has no connection to the dead one; only the dead node is a fault.
TEST(cluster_health, the_network_is_not_blamed_for_a_node_that_is_dead) {
  cluster c;
  c.silence(2);
  for (const auto node : {0, 1})
    set(c.answers[node], metric::links, 1);
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("node-3 does not answer")));
}

TEST(cluster_health, another_view_and_missing_links_are_faults_but_not_both_at_once) {
  cluster c;
  set(c.answers[0], metric::view_version, 1);
  set(c.answers[0], metric::links, 0);
  set(c.answers[1], metric::links, 1);
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("node-1 has another view: term 4, version 1"),
                                      HasSubstr("node-2 is connected to 1 of 2 other nodes")));
}

/// A disk tier without a path is off on purpose; it is a fault only on the node whose path is set.
TEST(cluster_health, a_disk_tier_that_was_to_be_and_is_off_is_a_fault_with_the_reason) {
  cluster c;
  c.answers[0].status->disk.why_off = "disk.path is not set";
  EXPECT_THAT(c.faults(), IsEmpty());
  c.answers[1].status->disk.path = "/disks/node-2";
  c.answers[1].status->disk.why_off = "'/disks/node-2/disk.cleared' is damaged";
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("node-2: its disk tier is off: '/disks/node-2/"
                                                "disk.cleared' is damaged")));
}

TEST(cluster_health, a_disk_that_is_left_alone_or_full_is_a_fault) {
  cluster c;
  for (auto& answer : c.answers) {
    set(answer, metric::disk_on, 1);
    answer.status->disk.breaker = "closed";
  }
  c.answers[0].status->disk.breaker = "open";
  set(c.answers[1], metric::disk_read_only, 1);
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("node-1: its disk fails"),
                                      HasSubstr("node-2: its disk tier takes no pages")));
}

} // namespace peercache::cli::cluster_health_test
