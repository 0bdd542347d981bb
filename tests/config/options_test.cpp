#include "config/load.hpp"
#include "tests/config/sample_values.hpp"

#include <gtest/gtest.h>

#include <set>

namespace peercache::config {
namespace {

TEST(options, names_variables_and_flags_are_unique) {
  std::set<std::string> names, variables, flags;
  for (const auto& opt : options()) {
    EXPECT_TRUE(names.emplace(opt.name).second) << opt.name;
    EXPECT_TRUE(variables.insert(opt.variable()).second) << opt.variable();
    EXPECT_TRUE(flags.insert(opt.flag()).second) << opt.flag();
  }
}

TEST(options, names_follow_one_rule_in_all_their_forms) {
  const auto* opt = find_option("data.max_channels_per_peer");
  ASSERT_NE(opt, nullptr);
  EXPECT_EQ(opt->section(), "data");
  EXPECT_EQ(opt->key(), "max_channels_per_peer");
  EXPECT_EQ(opt->variable(), "PEERCACHE_DATA_MAX_CHANNELS_PER_PEER");
  EXPECT_EQ(opt->flag(), "--data-max-channels-per-peer");
  EXPECT_EQ(find_option("dev")->section(), "");
  EXPECT_EQ(find_option("dev")->key(), "dev");
  EXPECT_EQ(find_option("pool.sise"), nullptr);
}

TEST(options, top_level_options_come_first_and_sections_are_in_one_piece) {
  std::set<std::string_view> seen;
  std::string_view current;
  for (const auto& opt : options()) {
    if (opt.section() != current) {
      EXPECT_TRUE(seen.insert(opt.section()).second) << opt.name;
      EXPECT_NE(opt.section(), "") << opt.name;
    }
    current = opt.section();
  }
}

TEST(options, each_has_a_meaning_a_field_and_a_default_that_is_valid) {
  for (const auto& opt : options()) {
    EXPECT_TRUE(opt.meaning.ends_with('.')) << opt.name;
    ASSERT_NE(opt.store, nullptr) << opt.name;
    EXPECT_EQ(opt.choices.empty(), opt.type != option_type::choice) << opt.name;
    for (const auto& value : {opt.default_value, opt.dev_default.value_or(opt.default_value)}) {
      auto read = value_from_text(opt, value_text(opt, value));
      ASSERT_TRUE(read) << opt.name << ": " << read.error().message;
      EXPECT_EQ(*read, value) << opt.name;
    }
  }
}

TEST(options, no_two_options_share_a_field) {
  node_config untouched;
  for (const auto& opt : options())
    opt.store(untouched, opt.default_value);
  for (const auto& a : options()) {
    node_config only_a = untouched;
    a.store(only_a, test::sample_values(a).front());
    EXPECT_NE(only_a, untouched) << a.name;
    for (const auto& b : options()) {
      node_config both = only_a;
      b.store(both, test::sample_values(b).front());
      b.store(both, b.default_value);
      if (&a != &b) {
        EXPECT_EQ(both, only_a) << a.name << " and " << b.name;
      }
    }
  }
}

/// A configuration file that sets every option to a value that is not its default.
constexpr std::string_view everything = R"(
insecure_cluster = true
data_plane = "tcp"
dev = true
[node]
name = "n1"
group = "engines"
[cluster]
name = "c1"
[net]
bind = "10.0.0.1"
advertise = "host1"
control_port = 1001
lookup_port = 1004
lookup_datagrams = false
data_port = 1002
http_port = 1003
socket_folder = "/sockets"
[tls]
cert = "/tls/n1.crt"
key = "/tls/n1.key"
ca = "/tls/ca.crt"
data = "full"
[discovery]
seeds = ["a:1", "[fd00::1]:2"]
max_masters = 5
heartbeat = "100ms"
expiry = "3s"
[directory]
replicas = 4
records_max = 1234
republish_rate = 14
repair_rate = "13MiB"
[overlap]
gpu_keys = 15
[pool]
size = "3GiB"
huge_pages = "1GiB"
prefault_threads = 7
eviction = "s3fifo"
free_low = 0.1
free_high = 0.25
name_prefix = "pp"
keep = true
mirror = "all"
mirror_share = 0.5
hold_share = 0.125
scrub_evicted = true
[data]
max_channels_per_peer = 9
send_timeout = "6s"
[rdma]
devices = ["mlx5_0", "mlx5_1"]
port = 2
gid_index = 3
traffic_class = 106
service_level = 4
hop_limit = 5
timeout = 12
retries = 6
chunk_size = "4MiB"
registration_threads = 8
bounce_size = "2MiB"
windows = true
[disk]
enabled = false
path = "/disk"
size = "5GiB"
high_watermark = 0.5
low_watermark = 0.25
store = "offset"
eviction = "lru"
ttl = "15s"
bucket_size = "6MiB"
bucket_keys = 7
policy = "on_evict"
queue_size = "8MiB"
queue_depth = 9
promote_size = "10MiB"
warm = false
scrub_rate = "11MiB"
verify = true
[set]
duplicate = "store"
[client]
node_host = "10.0.0.9"
node_port = 1004
timeout = "7s"
location_cache_keys = 11
unacknowledged_bytes_max = "12MiB"
verify_own_host = "off"
verify_tcp = "sample"
verify_rdma = "always"
verify_sample = 13
[metrics]
enabled = false
bind = "10.0.0.2"
dashboard = false
readers = "anyone"
[log]
level = "warn"
json = true
file = "/logs/n1.log"
[actors]
threads = 3
[drain]
timeout = "14s"
)";

node_config::disk_section disk_of_everything() {
  using std::chrono::milliseconds;
  return {.enabled = false,
          .path = "/disk",
          .size_bytes = 5ull << 30,
          .high_watermark = 0.5,
          .low_watermark = 0.25,
          .store = disk_store_mode::offset,
          .eviction = disk_eviction::lru,
          .ttl = milliseconds(15'000),
          .bucket_bytes = 6u << 20,
          .bucket_keys = 7,
          .policy = disk_policy::on_evict,
          .queue_bytes = 8u << 20,
          .queue_depth = 9,
          .promote_bytes = 10u << 20,
          .warm = false,
          .scrub_bytes_per_s = 11u << 20,
          .verify = true};
}

TEST(options, each_reaches_the_field_of_its_name) {
  using std::chrono::milliseconds;
  auto loaded = load({.file = file_source{"all.toml", std::string(everything)}});
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (const auto& value : loaded->values)
    EXPECT_EQ(value.from.kind, origin_kind::file) << value.opt->name << " is missing above";
  node_config expected;
  expected.node = {"n1", "engines"};
  expected.cluster = {.name = "c1", .insecure = true};
  expected.net = {"10.0.0.1", "host1", 1001, 1004, 1002, 1003, "/sockets"};
  expected.tls = {"/tls/n1.crt", "/tls/n1.key", "/tls/ca.crt"};
  expected.tls_data = tls_data_mode::full;
  expected.discovery = {.seeds = {{"a", 1}, {"fd00::1", 2}},
                        .max_masters = 5,
                        .heartbeat = milliseconds(100),
                        .expiry = milliseconds(3000)};
  expected.directory = {4, 1234, 14, 13u << 20};
  expected.overlap = {15};
  expected.pool = {.size_bytes = 3ull << 30,
                   .huge_pages = huge_pages::size_1gib,
                   .prefault_threads = 7,
                   .eviction = eviction_mode::s3fifo,
                   .free_low = 0.1,
                   .free_high = 0.25,
                   .name_prefix = "pp",
                   .keep = true,
                   .scrub_evicted = true,
                   .mirror = mirror_mode::all,
                   .mirror_share = 0.5,
                   .hold_share = 0.125};
  expected.data = {data_plane_mode::tcp, 9, milliseconds(6000)};
  expected.rdma = {{"mlx5_0", "mlx5_1"}, 2, 3, 106, 4, 5, 12, 6, 4u << 20, 8, 2u << 20, true};
  expected.disk = disk_of_everything();
  expected.client = {.node_host = "10.0.0.9",
                     .node_port = 1004,
                     .timeout = milliseconds(7000),
                     .verify_own_host = verify_mode::off,
                     .verify_tcp = verify_mode::sample,
                     .verify_rdma = verify_mode::always,
                     .verify_sample = 13,
                     .location_cache_keys = 11,
                     .unacknowledged_bytes_max = 12ull << 20};
  expected.set = {duplicate_mode::store};
  expected.metrics = {
      .enabled = false, .bind = "10.0.0.2", .dashboard = false, .readers = http_readers::anyone};
  expected.log = {log_level::warn, true, "/logs/n1.log"};
  expected.actors = {3};
  expected.drain = {milliseconds(14'000)};
  expected.dev = true;
  EXPECT_EQ(loaded->config, expected);
}

} // namespace
} // namespace peercache::config
