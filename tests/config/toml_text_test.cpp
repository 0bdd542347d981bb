#include "config/toml_text.hpp"

#include "config/load.hpp"

#include <gtest/gtest.h>

namespace peercache::config::toml_text_test {
namespace {

std::string fault_of(std::string text) {
  const auto loaded = load({.file = file_source{"p.toml", std::move(text)}, .host_name = "here"});
  return loaded ? "accepted" : loaded.error().message;
}

bool begins_with(const std::string& text, const std::string& begin) {
  return text.rfind(begin, 0) == 0;
}

/// Texts with which toml++ 3.3 crashes or has undefined behaviour. They must be refused before it
/// gets them.
TEST(toml_text, what_the_parser_stumbles_over_is_refused_with_its_place) {
  EXPECT_EQ(fault_of("[discovery]\nseeds = [}\n"),
            "p.toml:2:10: tables in braces are not used here: write [section]");
  std::string deep = "a";
  for (int i = 0; i < 100'000; ++i)
    deep += ".a";
  EXPECT_TRUE(
      begins_with(fault_of(deep + " = 1\n"), "p.toml:1:18: no option's name has this many parts"));
  EXPECT_TRUE(begins_with(fault_of("[" + deep + "]\n"),
                          "p.toml:1:19: no option's name has this many parts"));
  EXPECT_TRUE(begins_with(fault_of("\xCD\x90"), "p.toml:1:1: only texts in"));
  EXPECT_TRUE(begins_with(fault_of("[pool]\ngr\xC3\xB6\xC3\x9F\x65 = 2\n"), "p.toml:2:3: only"));
  EXPECT_TRUE(begins_with(fault_of("a = " + std::string(100'000, '[')), "p.toml:1:6: lists in"));
  EXPECT_TRUE(begins_with(fault_of("a = [\n " + std::string(9, ',') + "["), "p.toml:2:11: lists"));
  EXPECT_TRUE(begins_with(fault_of("a = b'\xC3\xB6'\n"), "p.toml:1:6: a text stands between"));
  EXPECT_TRUE(begins_with(fault_of("a = 'p\xC3\xB6\n"), "p.toml:1:5: a text stands between"));
  EXPECT_TRUE(begins_with(fault_of("a = \"\"\"\n[=\n\"\"\""), "p.toml:1:5: texts of several"));
}

TEST(toml_text, texts_and_comments_may_have_any_characters) {
  for (const char* text :
       {"# gr\xC3\xB6\xC3\x9F\x65 {als} [[das]] a.b.c.d.e.f.g.h.i.j.k\n[pool]\nsize = \"1GiB\" # "
        "{\n",
        "[disk]\npath = \"/{a}/[[b]]/a.b.c.d.e.f.g.h.i.j.k#\"\n", "[disk]\npath = '/a\\'\n",
        "[disk]\npath = \"/a\\\"{\"\n",
        "dev = true\n[discovery]\nseeds = [\n  \"a:1\", # one\n  \"b:2\",\n]\n[pool]\nsize = "
        "\"1GiB\"\n"})
    EXPECT_EQ(fault_of(text), "accepted") << text;
}

} // namespace
} // namespace peercache::config::toml_text_test
