#include "config/process_sources.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace peercache::config {
namespace {

/// A file with the given content that is removed at the end of the test.
struct temporary_file {
  std::filesystem::path path;
  explicit temporary_file(const std::string& content)
      : path(std::filesystem::temp_directory_path() /
             ("peercache_config_test." + std::to_string(getpid()) + ".toml")) {
    std::ofstream(path, std::ios::binary) << content;
  }
  ~temporary_file() { std::filesystem::remove(path); }
};

/// Sets an environment variable and unsets it at the end of the test.
struct variable {
  const char* name;
  variable(const char* name, const char* text) : name(name) { setenv(name, text, 1); }
  ~variable() { unsetenv(name); }
};

TEST(process_sources, a_named_file_that_is_not_there_is_an_error) {
  auto from = sources_of_process("/nonexistent/peercache.toml");
  ASSERT_FALSE(from);
  EXPECT_EQ(from.error().code, errc::io_failed);
  EXPECT_NE(from.error().message.find("/nonexistent/peercache.toml"), std::string::npos);
  EXPECT_FALSE(sources_of_process("/")) << "a folder is no file";
}

TEST(process_sources, file_environment_and_host_name_are_collected) {
  const temporary_file file("[log]\njson = true\n");
  const variable set("PEERCACHE_POOL_SIZE", "2GiB");
  auto from = sources_of_process(file.path.string());
  ASSERT_TRUE(from) << from.error().message;
  EXPECT_EQ(from->file->content, "[log]\njson = true\n");
  EXPECT_EQ(from->environment.at("PEERCACHE_POOL_SIZE"), "2GiB");
  EXPECT_FALSE(from->host_name.empty());
  EXPECT_TRUE(from->flags.empty());
}

TEST(process_sources, without_a_path_the_variable_names_the_file) {
  const temporary_file file("dev = true\n");
  EXPECT_FALSE(sources_of_process(std::nullopt)->file);
  const variable set("PEERCACHE_CONFIG", file.path.c_str());
  auto from = sources_of_process(std::nullopt);
  ASSERT_TRUE(from) << from.error().message;
  EXPECT_EQ(from->file->path, file.path.string());
}

TEST(process_sources, of_a_file_that_is_too_long_enough_is_read_to_refuse_it) {
  const temporary_file file(std::string(config_file_bytes_max * 2, '#'));
  auto from = read_config_file(file.path.string());
  ASSERT_TRUE(from);
  EXPECT_EQ(from->content.size(), config_file_bytes_max + 1);
}

TEST(process_sources, options_that_a_library_is_given_win_over_the_environment) {
  const variable set("PEERCACHE_POOL_SIZE", "2GiB");
  const auto loaded = load_in_process({{"pool.size", "1GiB"}}, true);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.pool.size_bytes, 1u << 30);
}

TEST(process_sources, a_library_names_the_option_that_was_meant) {
  const auto loaded = load_in_process({{"pool.sise", "1GiB"}}, false);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, errc::invalid_argument);
  EXPECT_NE(loaded.error().message.find("pool.size"), std::string::npos);
}

TEST(process_sources, options_are_checked_against_each_other_for_a_whole_node_alone) {
  const std::vector<given_flag> flags{{"pool.free_low", "0.5"}, {"pool.free_high", "0.1"}};
  EXPECT_TRUE(load_in_process(flags, false));
  EXPECT_FALSE(load_in_process(flags, true));
}

} // namespace
} // namespace peercache::config
