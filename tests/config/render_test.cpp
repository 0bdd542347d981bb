#include "config/render.hpp"

#include "tests/config/sample_values.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace peercache::config {
namespace {

std::string content_of(const std::string& path_in_tree) {
  std::ifstream file(std::filesystem::path(PEERCACHE_SOURCE_DIR) / path_in_tree, std::ios::binary);
  EXPECT_TRUE(file) << path_in_tree;
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

constexpr auto how_to_renew = "run `peercache_config_docs <root of the tree>`";

TEST(render, the_commented_file_in_the_tree_is_what_the_table_says) {
  EXPECT_EQ(content_of("config/peercache.toml"), render_default_file()) << how_to_renew;
}

TEST(render, the_documentation_in_the_tree_is_what_the_table_says) {
  EXPECT_EQ(content_of("docs/configuration.md"), render_documentation()) << how_to_renew;
}

/// Returns the text without the leading # of lines that set options.
std::string uncommented(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const bool setting = line.size() > 1 && line[0] == '#' && line[1] != ' ';
    out += (setting ? line.substr(1) : line) + '\n';
  }
  return out;
}

TEST(render, the_commented_file_sets_nothing_and_uncommented_it_sets_every_default) {
  const auto plain = merge_sources({.host_name = "here"});
  const auto commented =
      merge_sources({.file = file_source{"p.toml", render_default_file()}, .host_name = "here"});
  const auto set = merge_sources(
      {.file = file_source{"p.toml", uncommented(render_default_file())}, .host_name = "here"});
  ASSERT_TRUE(plain);
  ASSERT_TRUE(commented) << commented.error().message;
  ASSERT_TRUE(set) << set.error().message;
  for (std::size_t i = 0; i < options().size(); ++i) {
    EXPECT_EQ(commented->values[i].from.kind, origin_kind::default_value);
    EXPECT_EQ(set->values[i].from.kind, origin_kind::file) << options()[i].name;
    EXPECT_EQ(set->values[i].value, plain->values[i].value) << options()[i].name;
  }
}

TEST(render, every_option_is_in_the_documentation_with_its_meaning) {
  const auto text = render_documentation();
  for (const auto& opt : options()) {
    EXPECT_NE(text.find("| `" + std::string(opt.name) + "` |"), std::string::npos) << opt.name;
    EXPECT_NE(text.find(opt.meaning), std::string::npos) << opt.name;
  }
}

TEST(render, help_tells_meaning_bounds_and_default) {
  EXPECT_EQ(help_text(*find_option("pool.size")),
            "Memory for pages on this host. 1MiB to 8TiB; [default: 1GiB; with --dev: 256MiB]");
  EXPECT_EQ(help_text(*find_option("node.name")),
            "Name of this node, unique in the cluster. [default: the host name]");
  EXPECT_EQ(form_of(*find_option("pool.eviction")), "auto|lru|s3fifo");
}

void expect_round_trip(const loaded_config& loaded) {
  const auto text = render_effective(loaded);
  // Reads the printed text under another host name than that under which it was printed: the values
  // must be the same.
  auto again = merge_sources({.file = file_source{"printed.toml", text}, .host_name = "elsewhere"});
  ASSERT_TRUE(again) << again.error().message << '\n' << text;
  EXPECT_EQ(again->config, loaded.config) << text;
  for (std::size_t i = 0; i < options().size(); ++i) {
    EXPECT_EQ(again->values[i].value, loaded.values[i].value) << options()[i].name;
    EXPECT_EQ(again->values[i].from.kind, origin_kind::file) << options()[i].name;
  }
}

TEST(render, the_printed_configuration_reads_back_to_the_same_values) {
  auto loaded = merge_sources({.file = file_source{"a\n\"path\"\xff.toml", "[log]\njson = true\n"},
                               .environment = {{"PEERCACHE_NODE_NAME", "a\"b\\c#d"}},
                               .flags = {{"discovery.seeds", "a:1,[fd00::1]:2"}, {"dev", "true"}},
                               .host_name = "here"});
  ASSERT_TRUE(loaded) << loaded.error().message;
  expect_round_trip(*loaded);
}

TEST(render, any_configuration_reads_back_to_the_same_values) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    sources from{.host_name = "here"};
    for (const auto& opt : options()) {
      const auto samples = test::sample_values(opt);
      const auto text = value_text(opt, samples[random() % samples.size()]);
      const auto place = random() % 3;
      if (place == 1)
        from.environment[opt.variable()] = text;
      if (place == 2)
        from.flags.push_back({std::string(opt.name), text});
    }
    auto loaded = merge_sources(from);
    ASSERT_TRUE(loaded) << loaded.error().message;
    expect_round_trip(*loaded);
    if (HasFatalFailure())
      return;
  }
}

TEST(render, the_printed_configuration_names_each_values_origin) {
  auto loaded = load({.file = file_source{"p.toml", "[log]\njson = true\n"},
                      .environment = {{"PEERCACHE_POOL_SIZE", "2GiB"}},
                      .flags = {{"data_plane", "tcp"}},
                      .host_name = "here"});
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto text = render_effective(*loaded);
  for (const char* line :
       {"\njson = true  # file p.toml:2:1\n",
        "\nsize = \"2GiB\"  # environment PEERCACHE_POOL_SIZE\n",
        "\ndata_plane = \"tcp\"  # flag --data-plane\n",
        "\nname = \"here\"  # default (host name)\n", "\ndev = false  # default\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

} // namespace
} // namespace peercache::config
