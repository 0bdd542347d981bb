#include "actors/membership/seed_answers.hpp"

#include "common/fault_ids.hpp"
#include "link/connector_actor.hpp"

#include <caf/all.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::actors::seed_answers_test {
namespace {

using discovery::endpoint;
using testing::HasSubstr;
using testing::Not;

const endpoint first{"10.0.0.1", 31998};
const endpoint second{"10.0.0.2", 31998};
const std::vector<endpoint> seeds{first, second};

std::string id_after(const caf::error& why) {
  seed_answers answers;
  answers.failed(first, why);
  const auto said = answers.faults(seeds);
  EXPECT_EQ(said.size(), 1u);
  EXPECT_THAT(said.front().what, HasSubstr("10.0.0.1:31998"));
  return said.front().id;
}

} // namespace

TEST(seed_answers, each_kind_of_failure_has_an_id_of_its_own) {
  using caf::make_error;
  using caf::sec;
  const auto words = [](const char* text) { return std::string(text); };
  EXPECT_EQ(id_after(make_error(sec::cannot_connect_to_node, words("Connection refused"))),
            fault_ids::seed_unreachable);
  EXPECT_EQ(
      id_after(make_error(sec::cannot_connect_to_node, link::no_tls_with_it + words("alert"))),
      fault_ids::seed_tls);
  EXPECT_EQ(id_after(sec::disconnect_during_handshake), fault_ids::seed_no_control_port);
  EXPECT_EQ(id_after(sec::request_timeout), fault_ids::seed_silent);
  EXPECT_EQ(id_after(make_error(sec::incompatible_versions, words("it speaks wire version 10"))),
            fault_ids::seed_speaks_other);
  EXPECT_EQ(id_after(make_error(sec::incompatible_application_ids, words("another cluster"))),
            fault_ids::seed_other_cluster);
}

TEST(seed_answers, whoever_answers_there_cannot_write_control_characters_into_logs_and_terminals) {
  const std::string said = "a\x1b[2J\nb" + std::string(8 << 20, 'x');
  seed_answers answers;
  answers.welcomed(first, said);
  answers.failed(second, caf::make_error(caf::sec::incompatible_versions, said));
  const auto words = [&] { return answers.text(seeds); };
  EXPECT_THAT(words(), HasSubstr("node 'a?[2J?bxxx"));
  EXPECT_THAT(words(), HasSubstr("10.0.0.2:31998: a?[2J?bxxx"));
  EXPECT_THAT(words(), Not(HasSubstr("\x1b")));
  answers.refused(discovery::refusal::full, said);
  EXPECT_THAT(words(), HasSubstr("refuses this node: a?[2J?bxxx"));
  EXPECT_THAT(words(), Not(HasSubstr("\x1b")));
  EXPECT_LT(words().size(), 2000u);
}

TEST(seed_answers, a_refusal_has_the_id_of_its_reason) {
  const auto id_of = [](discovery::refusal why) {
    seed_answers answers;
    answers.refused(why, "as it says");
    return answers.faults({}).front().id;
  };
  EXPECT_EQ(id_of(discovery::refusal::name_taken), fault_ids::name_in_use);
  EXPECT_EQ(id_of(discovery::refusal::out_of_reach), fault_ids::advertise_out_of_reach);
  for (const auto other :
       {discovery::refusal::no_majority, discovery::refusal::full, discovery::refusal::malformed})
    EXPECT_EQ(id_of(other), fault_ids::join_refused);
}

TEST(seed_answers, a_refusal_comes_first_and_the_seeds_that_answered_are_no_fault_then) {
  seed_answers answers;
  answers.welcomed(first, "a");
  answers.failed(second, caf::make_error(caf::sec::cannot_connect_to_node));
  EXPECT_EQ(answers.faults(seeds).front().id, fault_ids::seed_undecided);
  answers.refused(discovery::refusal::name_taken, "a node named 'x' lives at 10.0.0.3:31998");
  const auto said = answers.faults(seeds);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].id, fault_ids::name_in_use);
  EXPECT_EQ(said[1].id, fault_ids::seed_unreachable);
  EXPECT_THAT(answers.text(seeds), HasSubstr("lives at 10.0.0.3:31998; 10.0.0.2:31998: "));
}

TEST(seed_answers, a_refusal_is_old_news_once_no_seed_answers) {
  seed_answers answers;
  answers.welcomed(first, "a");
  answers.refused(discovery::refusal::full, "the cluster is full");
  answers.broke(first);
  const auto said = answers.faults(seeds);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].id, fault_ids::seed_silent);
}

TEST(seed_answers, a_seed_without_an_address_is_named_in_and_out_of_a_cluster_until_it_has_one) {
  seed_answers answers;
  answers.no_address(second, "address 'b': unknown");
  answers.welcomed(first, "a");
  EXPECT_EQ(answers.faults(seeds).size(), 2u);
  answers.clear();
  EXPECT_TRUE(answers.lacks_address(second));
  EXPECT_FALSE(answers.lacks_address(first));
  for (const auto& said : {answers.faults(seeds), answers.faults_of_names(seeds)}) {
    ASSERT_EQ(said.size(), 1u);
    EXPECT_EQ(said.front().id, fault_ids::seed_no_address);
    EXPECT_THAT(said.front().what, HasSubstr("no address for the seed 10.0.0.2:31998"));
    EXPECT_THAT(said.front().what, HasSubstr("address 'b': unknown"));
  }
  answers.has_address(second);
  EXPECT_TRUE(answers.faults(seeds).empty());
}

TEST(seed_answers, nothing_is_said_before_an_answer_and_after_clear) {
  seed_answers answers;
  EXPECT_EQ(answers.text(seeds), "");
  answers.welcomed(first, "a");
  answers.refused(discovery::refusal::full, "the cluster is full");
  answers.clear();
  EXPECT_EQ(answers.text(seeds), "");
}

} // namespace peercache::actors::seed_answers_test
