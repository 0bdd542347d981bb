#include "config/load.hpp"

#include "config/render.hpp"
#include "tests/config/sample_values.hpp"

#include <gtest/gtest.h>

#include <random>

namespace peercache::config {
namespace {

std::string toml_line(const option& opt, const option_value& value) {
  std::string line = opt.section().empty() ? "" : "[" + std::string(opt.section()) + "]\n";
  return line + std::string(opt.key()) + " = " + value_toml(opt, value) + "\n";
}

std::string fault_of(std::string content) {
  auto loaded = load({.file = file_source{"p.toml", std::move(content)}, .host_name = "here"});
  return loaded ? "accepted" : loaded.error().message;
}

std::string fault_of_variable(const std::string& name, const std::string& text) {
  auto loaded = load({.environment = {{name, text}}, .host_name = "here"});
  return loaded ? "accepted" : loaded.error().message;
}

/// Returns sources that set `opt` in each origin whose bit is set in `mask` (1: file, 2:
/// environment, 4: flag), each time to a different value of `samples`.
sources sources_with(const option& opt, unsigned mask, const std::vector<option_value>& samples) {
  sources from{.host_name = "here"};
  const auto sample = [&](std::size_t i) { return samples[i % samples.size()]; };
  if (mask & 1)
    from.file = file_source{"p.toml", toml_line(opt, sample(0))};
  if (mask & 2)
    from.environment[opt.variable()] = value_text(opt, sample(1));
  if (mask & 4)
    from.flags.push_back({std::string(opt.name), value_text(opt, sample(2))});
  return from;
}

TEST(load, for_every_option_and_any_mix_of_origins_the_strongest_wins) {
  for (const auto& opt : options()) {
    const auto samples = test::sample_values(opt);
    ASSERT_GE(samples.size(), 2u) << opt.name;
    for (unsigned mask = 0; mask < 8; ++mask) {
      SCOPED_TRACE(std::string(opt.name) + " mask " + std::to_string(mask));
      auto merged = merge_sources(sources_with(opt, mask, samples));
      ASSERT_TRUE(merged) << merged.error().message;
      const auto& entry = merged->value_of(opt.name);
      if (mask & 4) {
        EXPECT_EQ(entry.from.kind, origin_kind::flag);
        EXPECT_EQ(entry.from.where, opt.flag());
        EXPECT_EQ(entry.value, samples[2 % samples.size()]);
      } else if (mask & 2) {
        EXPECT_EQ(entry.from.kind, origin_kind::environment);
        EXPECT_EQ(entry.from.where, opt.variable());
        EXPECT_EQ(entry.value, samples[1]);
      } else if (mask & 1) {
        EXPECT_EQ(entry.from.kind, origin_kind::file);
        EXPECT_EQ(entry.from.where, opt.section().empty() ? "p.toml:1:1" : "p.toml:2:1");
        EXPECT_EQ(entry.value, samples[0]);
      } else {
        EXPECT_EQ(entry.from.kind, origin_kind::default_value);
        if (entry.from.where.empty()) {
          EXPECT_EQ(entry.value, opt.default_value);
        }
      }
      node_config stored = merged->config;
      opt.store(stored, entry.value);
      EXPECT_EQ(stored, merged->config);
    }
  }
}

TEST(load, nothing_set_is_a_valid_node_on_loopback) {
  auto loaded = load({.host_name = "here"});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.node.name, "here");
  EXPECT_EQ(loaded->config.net.bind, "127.0.0.1");
  EXPECT_EQ(loaded->config.net.advertise, "127.0.0.1");
  EXPECT_EQ(loaded->config.metrics.bind, "127.0.0.1");
  EXPECT_EQ(loaded->config.net.control_port, 31998);
  EXPECT_EQ(loaded->config.pool.size_bytes, 1ull << 30);
  EXPECT_TRUE(loaded->warnings.empty());
}

TEST(load, empty_addresses_follow_the_bind_address_and_say_so) {
  auto loaded = load({.environment = {{"PEERCACHE_NET_BIND", "127.0.0.7"}}, .host_name = "here"});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.net.advertise, "127.0.0.7");
  EXPECT_EQ(loaded->config.metrics.bind, "127.0.0.7");
  EXPECT_EQ(to_string(loaded->value_of("net.advertise").from), "default (net.bind)");
  EXPECT_EQ(to_string(loaded->value_of("node.name").from), "default (host name)");
}

TEST(load, dev_changes_defaults_and_nothing_that_was_set) {
  auto dev = load({.flags = {{"dev", "true"}}, .host_name = "here"});
  ASSERT_TRUE(dev) << dev.error().message;
  EXPECT_EQ(dev->config.data.plane, data_plane_mode::tcp);
  EXPECT_EQ(dev->config.pool.size_bytes, 256ull << 20);
  EXPECT_EQ(to_string(dev->value_of("pool.size").from), "default (of dev)");
  auto set = load({.environment = {{"PEERCACHE_POOL_SIZE", "8MiB"}},
                   .flags = {{"dev", "true"}},
                   .host_name = "here"});
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->config.pool.size_bytes, 8ull << 20);
}

TEST(load, an_unknown_option_is_refused_with_its_place_and_a_suggestion) {
  EXPECT_EQ(fault_of("[pool]\nsize = \"1GiB\"\n  sise = 3\n"),
            "p.toml:3:3: unknown option `pool.sise` (did you mean `pool.size`?)");
  EXPECT_EQ(fault_of("[poool]\nsize = \"1GiB\"\n"),
            "p.toml:2:1: unknown option `poool.size` (did you mean `pool.size`?)");
  EXPECT_EQ(fault_of("nonsense_of_mine = 1\n"), "p.toml:1:1: unknown option `nonsense_of_mine`");
  EXPECT_EQ(fault_of("[nonsense]\n").substr(0, 11), "p.toml:1:2:");
  EXPECT_EQ(fault_of("\"pool.size\" = \"1GiB\"\n").substr(0, 46),
            "p.toml:1:1: unknown option `\"pool.size\"` (did ");
}

TEST(load, a_section_written_as_an_option_is_explained) {
  EXPECT_EQ(fault_of("pool = 3\n"),
            "p.toml:1:1: `pool` is a section: write [pool] and its options below");
}

TEST(load, an_empty_section_is_fine) {
  EXPECT_EQ(fault_of("[pool]\n#size = 1\n"), "accepted");
}

TEST(load, a_value_of_the_wrong_type_is_refused_with_its_place_and_the_right_form) {
  EXPECT_EQ(fault_of("\n[net]\ncontrol_port = \"31998\"\n"),
            "p.toml:3:1: `net.control_port`: the value is a string; write an integer, without "
            "quotes");
  EXPECT_EQ(fault_of("dev = \"true\"\n"),
            "p.toml:1:1: `dev`: the value is a string; write true or false, without quotes");
  EXPECT_EQ(
      fault_of("drain.timeout = 5\n"),
      "p.toml:1:7: `drain.timeout`: the value is an integer; write a duration in quotes, such "
      "as \"500ms\" or \"2s\"");
  EXPECT_EQ(fault_of("[discovery]\nseeds = \"a:1\"\n").substr(0, 31),
            "p.toml:2:1: `discovery.seeds`: ");
  EXPECT_EQ(fault_of("[discovery]\nseeds = [\"a:1\", 2]\n").substr(0, 31),
            "p.toml:2:1: `discovery.seeds`: ");
  EXPECT_NE(fault_of("[pool]\nsize = 1979-05-27\n"), "accepted");
  EXPECT_NE(fault_of("[pool]\nsize = {}\n"), "accepted");
  EXPECT_NE(fault_of("[pool]\nsize = -1\n"), "accepted");
  EXPECT_NE(fault_of("[pool]\nsize = 1e9\n"), "accepted");
}

/// Sets each option in a file to a value of a wrong type.
TEST(load, a_value_of_the_wrong_type_is_refused_for_every_option) {
  for (const auto& opt : options()) {
    const auto fault = fault_of(std::string(opt.name) + " = 1979-05-27\n");
    EXPECT_NE(fault.find("`" + std::string(opt.name) + "`: the value is a date or time; write "),
              std::string::npos)
        << fault;
  }
  EXPECT_EQ(
      fault_of("pool.huge_pages = false\n"),
      "p.toml:1:6: `pool.huge_pages`: the value is a boolean; write one of its words in quotes");
}

TEST(load, a_size_in_the_file_may_be_a_number_of_bytes) {
  auto loaded = load({.file = file_source{"p.toml", "[pool]\nsize = 1048576\nfree_low = 0\n"},
                      .host_name = "here"});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.pool.size_bytes, 1048576u);
  EXPECT_EQ(loaded->config.pool.free_low, 0.0);
}

TEST(load, broken_toml_is_refused_with_its_place) {
  EXPECT_EQ(fault_of("[pool]\nsize = \n").substr(0, 9), "p.toml:2:");
  EXPECT_EQ(fault_of("dev = true\ndev = true\n").substr(0, 9), "p.toml:2:");
  EXPECT_NE(fault_of("dev = true\xff\n"), "accepted");
  EXPECT_NE(fault_of(std::string(100'000, '[')), "accepted");
}

TEST(load, headers_without_a_name_are_refused_before_the_parser_stumbles_over_them) {
  EXPECT_EQ(fault_of("[ =\n"),
            "p.toml:1:1: the name of a section must follow the bracket, as in [pool]");
  EXPECT_EQ(fault_of("dev = true\n  [[pool]]\n"),
            "p.toml:2:3: lists of tables are not used here: write [section]");
  for (const char* text : {"[[", "[[[", "[[=", "[[[1]]]", "[", "[\n", "[#", "[.", "[]", " [ \t= 1",
                           "\xEF\xBB\xBF[[[", "\t[[ [a]]"})
    EXPECT_NE(fault_of(text), "accepted") << text;
}

TEST(load, no_damaged_file_does_more_than_being_refused) {
  const std::uint64_t seed = 42;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const std::string whole = render_default_file();
  const std::string_view pieces = "[]{}\"'=.,#\n\r\t -_+:0159eTxZtfan\\\xEF\xBB\xBF\xFF\x01";
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole.substr(random() % whole.size(), random() % 200);
    std::erase(text, random() % 2 ? '#' : '\0');
    for (auto edits = random() % 8; edits != 0; --edits)
      text.insert(random() % (text.size() + 1), 1 + random() % 3, pieces[random() % pieces.size()]);
    auto loaded = load({.file = file_source{"p.toml", text}, .host_name = "here"});
    if (!loaded) {
      ASSERT_FALSE(loaded.error().message.empty()) << text;
    }
  }
}

TEST(load, a_file_that_cannot_be_a_configuration_is_not_parsed) {
  EXPECT_NE(fault_of(std::string(config_file_bytes_max + 1, '#')).find("right file?"),
            std::string::npos);
}

TEST(load, all_faults_are_reported_at_once_in_the_order_of_the_file) {
  auto loaded = load({.file = file_source{"p.toml", "[pool]\nsise = 1\n[net]\nbint = 2\n"},
                      .environment = {{"PEERCACHE_DEV", "maybe"}},
                      .flags = {{"pool.size", "huge"}},
                      .host_name = "here"});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, errc::invalid_argument);
  EXPECT_EQ(
      loaded.error().message,
      "p.toml:2:1: unknown option `pool.sise` (did you mean `pool.size`?)\n"
      "p.toml:4:1: unknown option `net.bint` (did you mean `net.bind`?)\n"
      "environment variable PEERCACHE_DEV: `dev`: \"maybe\" is neither true nor false\n"
      "--pool-size: `pool.size`: \"huge\" is not a size: write a whole number and a unit, such "
      "as 64GiB (1024-based), 500MB (1000-based) or 4096 (bytes)");
}

TEST(load, a_variable_of_ours_that_names_no_option_is_refused) {
  EXPECT_EQ(fault_of_variable("PEERCACHE_POOL_SIZ", "1GiB"),
            "environment: unknown variable `PEERCACHE_POOL_SIZ` (did you mean "
            "`PEERCACHE_POOL_SIZE`?)");
  EXPECT_EQ(fault_of_variable("PEERCACHE_POLL_SIZE", "1GiB"),
            "environment: unknown variable `PEERCACHE_POLL_SIZE` (did you mean "
            "`PEERCACHE_POOL_SIZE`?)");
  EXPECT_EQ(fault_of_variable("PEERCACHE_WHATEVER_THIS_MAY_BE", "1"),
            "environment: unknown variable `PEERCACHE_WHATEVER_THIS_MAY_BE`; unset it, "
            "`peercache-node --help` lists the options");
  EXPECT_EQ(fault_of_variable("PEERCACHE_FREE_LOW", "0.1"),
            "environment: unknown variable `PEERCACHE_FREE_LOW` (did you mean "
            "`PEERCACHE_POOL_FREE_LOW`?)");
  const auto timeout = fault_of_variable("PEERCACHE_TIMEOUT", "1");
  for (const char* meant : {"`PEERCACHE_CLIENT_TIMEOUT`", "`PEERCACHE_DRAIN_TIMEOUT`"})
    EXPECT_NE(timeout.find(meant), std::string::npos) << timeout;
  for (const char* name : {"PEERCACHE_", "PEERCACHE_PORT", "PEERCACHE_CONFIGS", "PEERCACHE_TESTS",
                           "PEERCACHE_NET_PORT"})
    EXPECT_NE(fault_of_variable(name, "1"), "accepted") << name;
}

TEST(load, variables_that_kubernetes_sets_for_a_service_of_our_name_are_only_mentioned) {
  auto loaded = load({.environment = {{"PEERCACHE_PORT", "tcp://10.0.0.1:31998"},
                                      {"PEERCACHE_PORT_31998_TCP", "tcp://10.0.0.1:31998"},
                                      {"PEERCACHE_PORT_31998_TCP_ADDR", "10.0.0.1"},
                                      {"PEERCACHE_SERVICE_HOST", "10.0.0.1"},
                                      {"PEERCACHE_SERVICE_PORT", "31998"},
                                      {"PEERCACHE_NODE_PORT", "tcp://10.0.0.2:31998"},
                                      {"PEERCACHE_NODE_SERVICE_PORT_HTTP", "31997"},
                                      {"PATH", "/bin"}},
                      .host_name = "here"});
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->warnings.size(), 1u);
  for (const char* name : {"PEERCACHE_PORT_31998_TCP_ADDR", "PEERCACHE_NODE_SERVICE_PORT_HTTP"})
    EXPECT_NE(loaded->warnings[0].find(name), std::string::npos) << loaded->warnings[0];
}

TEST(load, the_path_variable_and_test_switches_are_no_options) {
  auto loaded = load({.environment = {{"PEERCACHE_CONFIG", "/etc/peercache.toml"},
                                      {"PEERCACHE_TEST_GUARDS_OFF", "generation"}},
                      .host_name = "here"});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(loaded->warnings.empty());
}

} // namespace
} // namespace peercache::config
