#include "cli/redact.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::redact_test {

TEST(redact, a_secret_is_left_out_of_strings_wherever_it_stands) {
  const nlohmann::json document{{"text", "cluster 'prod' and prod-2"},
                                {"list", {"prod", true, nullptr, 1.5}}};
  const auto cleaned = redact(document, {"prod"});
  EXPECT_EQ(cleaned.dump().find("prod"), std::string::npos) << cleaned;
  EXPECT_EQ(cleaned["text"], "cluster '(left out)' and (left out)-2");
  EXPECT_EQ(cleaned["list"][1], true);
  EXPECT_EQ(cleaned["list"][3], 1.5);
}

TEST(redact, names_of_members_and_longer_words_stay_as_they_are) {
  const nlohmann::json document{{"cache", "peercache_hits_total"},
                                {"text", "caches, cache, recache, cache"}};
  const auto cleaned = redact(document, {"cache"});
  EXPECT_EQ(cleaned["cache"], "peercache_hits_total");
  EXPECT_EQ(cleaned["text"], "caches, (left out), recache, (left out)");
}

TEST(redact, the_clusters_that_messages_name_are_found) {
  const nlohmann::json document{
      {"a",
       {{"found", "holds the pages of node 'x' of cluster 'one', and this is of cluster 'two'"}}},
      {"b", {"it does not belong to cluster 'three'", 7}},
      {"c", "cluster 'never ends"}};
  EXPECT_EQ(cluster_names_in(document), (std::vector<std::string>{"one", "two", "three"}));
}

TEST(redact, the_longer_secret_goes_first) {
  EXPECT_EQ(redact("a prod-uction cluster", {"prod", "prod-uction"}), "a (left out) cluster");
}

TEST(redact, an_empty_secret_and_one_that_is_in_its_own_replacement_do_no_harm) {
  EXPECT_EQ(redact("text", {""}), "text");
  EXPECT_EQ(redact("left", {"left"}), "(left out)");
}

} // namespace peercache::cli::redact_test
