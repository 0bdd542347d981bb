#include "cli/redact.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::redact_test {

TEST(redact, a_secret_is_left_out_of_strings_and_names_wherever_it_stands) {
  const nlohmann::json document{
      {"text", "cluster 'prod' and prod-2"}, {"prod", 1}, {"list", {"prod", true, nullptr, 1.5}}};
  const auto cleaned = redact(document, {"prod"});
  EXPECT_EQ(cleaned.dump().find("prod"), std::string::npos) << cleaned;
  EXPECT_EQ(cleaned["text"], "cluster '(left out)' and (left out)-2");
  EXPECT_EQ(cleaned["(left out)"], 1);
  EXPECT_EQ(cleaned["list"][1], true);
  EXPECT_EQ(cleaned["list"][3], 1.5);
}

TEST(redact, the_longer_secret_goes_first) {
  EXPECT_EQ(redact("a production cluster", {"prod", "production"}), "a (left out) cluster");
}

TEST(redact, an_empty_secret_and_one_that_is_in_its_own_replacement_do_no_harm) {
  EXPECT_EQ(redact("text", {""}), "text");
  EXPECT_EQ(redact("left", {"left"}), "(left out)");
}

} // namespace peercache::cli::redact_test
