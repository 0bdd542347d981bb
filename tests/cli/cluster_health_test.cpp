#include "cli/cluster_health.hpp"
#include "common/fault_ids.hpp"

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

/// What is known of a healthy cluster of three masters; tests change single facts.
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
  /// Returns the sentences of the faults that are found.
  std::vector<std::string> faults() const {
    std::vector<std::string> texts;
    for (const auto& fault : faults_of(asked, view, answers))
      texts.push_back(fault.text);
    return texts;
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> all;
    for (const auto& fault : faults_of(asked, view, answers))
      all.push_back(fault.id);
    return all;
  }

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

TEST(cluster_health, parts_that_a_status_lacks_are_a_fault_and_the_cause_of_no_other) {
  cluster c;
  auto& status = *c.answers[1].status;
  set(c.answers[1], metric::links, 0);
  status.silent = {link::node_parts::directory};
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::status_incomplete));
  EXPECT_THAT(c.faults(), ElementsAre(AllOf(HasSubstr("node-2: its directory does not answer"),
                                            HasSubstr("ask again"))));
  set(c.answers[1], metric::view_term, 0);
  status.silent = {link::node_parts::membership, link::node_parts::directory};
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::status_incomplete));
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("its membership, directory do not answer")));
  status.silent = {link::node_parts::membership};
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::links_missing, fault_ids::status_incomplete))
      << "the directory says how many connections it has";
}

TEST(cluster_health, while_the_membership_is_silent_the_view_says_who_drains) {
  cluster c;
  c.answers[1].status->silent = {link::node_parts::membership};
  EXPECT_EQ(state_of(c.answers[1]), "ready");
  EXPECT_EQ(role_of(c.answers[1], c.view), "master");
  c.answers[1].member.draining = true;
  EXPECT_EQ(state_of(c.answers[1]), "draining");
}

TEST(cluster_health, each_fault_has_an_id_and_names_its_node) {
  cluster c;
  c.silence(0);
  c.view.gone.push_back({"node-4", "10.0.0.4", 31998, 1, discovery::departure::silent});
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::node_gone, fault_ids::node_silent));
  const auto said = to_json(faults_of(c.asked, c.view, c.answers).front());
  EXPECT_EQ(said["id"], "node-gone");
  EXPECT_EQ(said["node"], "node-4");
  EXPECT_THAT(said["text"].get<std::string>(), HasSubstr("10.0.0.4:31998"));
}

TEST(cluster_health, a_member_whose_process_is_another_one_was_started_again) {
  cluster c;
  c.answers[1].status->self.inc = {9, 9};
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::node_restarted));
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("node-2 was started again")));
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
  EXPECT_EQ(c.ids().back(), fault_ids::no_majority);
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
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::seed_missing));
}

/// Live nodes have no connection to a dead node. Only the dead node must be reported, and not these
/// connections.
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
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::view_differs, fault_ids::links_missing));
}

TEST(cluster_health, members_that_differ_in_version_or_an_option_are_a_fault) {
  cluster c;
  for (auto& answer : c.answers) {
    answer.status->version = "1.0";
    answer.status->common_options = {{"directory.replicas", "2"}, {"tls.*", "none"}};
  }
  EXPECT_THAT(c.faults(), IsEmpty());
  c.answers[1].status->common_options["directory.replicas"] = "3";
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::option_differs));
  EXPECT_THAT(c.faults(), ElementsAre(HasSubstr("members differ in directory.replicas: 2 (node-1, "
                                                "node-3), 3 (node-2); set it alike")));
  c.answers[2].status->version = "1.1";
  EXPECT_THAT(c.faults().front(), HasSubstr("1.0 (node-1, node-2), 1.1 (node-3)"));
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::version_differs, fault_ids::option_differs));
}

TEST(cluster_health, a_clock_is_a_fault_only_when_it_is_surely_a_second_off) {
  cluster c;
  const auto clock = [&c](std::size_t node, std::uint64_t says, std::uint64_t asked,
                          std::uint64_t answered) {
    c.answers[node].status->unix_ms = says;
    c.answers[node].asked_ms = asked;
    c.answers[node].answered_ms = answered;
  };
  clock(0, 1'000'000, 1'000'000, 1'000'010);
  // Within bounds: the answer may have taken two seconds.
  clock(1, 1'003'000, 1'000'000, 1'002'500);
  clock(2, 1'001'000, 1'000'000, 1'000'010);
  EXPECT_THAT(c.faults(), IsEmpty());
  clock(1, 996'000, 1'000'000, 1'000'010);
  clock(2, 1'003'600, 1'000'000, 1'000'010);
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::clock_differs, fault_ids::clock_differs));
  EXPECT_THAT(c.faults(),
              ElementsAre(HasSubstr("the clock of node-2 is 4.0 s behind that of node-1"),
                          HasSubstr("the clock of node-3 is 3.6 s ahead of that of node-1")));
}

TEST(cluster_health, what_a_node_says_of_itself_is_a_fault_with_since_when) {
  cluster c;
  c.answers[0].status->disk.faults.emplace_back(fault_ids::disk_full, "/disk is full", "make room",
                                                1'800'000'000'999);
  c.answers[1].status->membership.faults.emplace_back(fault_ids::pushed_out, "pushed out", "");
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::disk_full, fault_ids::pushed_out));
  EXPECT_THAT(c.faults(), ElementsAre("node-1: /disk is full; make room (since 2027-01-15 08:00:00 "
                                      "UTC)",
                                      "node-2: pushed out"));
}

TEST(cluster_health, the_answers_of_seeds_follow_that_a_node_is_in_no_view) {
  cluster c;
  c.view = {};
  c.answers.clear();
  c.asked.self.name = "node-9";
  c.asked.membership.faults.emplace_back(fault_ids::seed_tls, "10.0.0.1:1: no TLS", "");
  EXPECT_THAT(c.ids(), ElementsAre(fault_ids::not_in_cluster, fault_ids::seed_tls));
}

} // namespace peercache::cli::cluster_health_test
