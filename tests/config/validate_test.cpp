#include "config/validate.hpp"

#include <gtest/gtest.h>

namespace peercache::config {
namespace {

std::string fault_of(std::vector<given_flag> flags, std::string host_name = "here") {
  auto loaded = load({.flags = std::move(flags), .host_name = std::move(host_name)});
  return loaded ? "accepted" : loaded.error().message;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(validate, an_open_address_needs_insecure_cluster_and_the_refusal_says_why) {
  const auto fault = fault_of({{"net.bind", "10.0.0.1"}});
  EXPECT_TRUE(mentions(fault, "`net.bind` is 10.0.0.1 (flag --net-bind)")) << fault;
  EXPECT_TRUE(mentions(fault, "not authenticated")) << fault;
  EXPECT_TRUE(mentions(fault, "set `insecure_cluster = true`")) << fault;
  EXPECT_EQ(fault.find('\n'), std::string::npos) << "one fault, said once: " << fault;
  EXPECT_EQ(fault_of({{"net.bind", "10.0.0.1"}, {"insecure_cluster", "true"}}), "accepted");
}

TEST(validate, seeds_on_loopback_need_insecure_cluster_too) {
  const auto fault = fault_of({{"discovery.seeds", "127.0.0.1:31998"}});
  EXPECT_TRUE(mentions(fault, "`discovery.seeds` is ")) << fault;
  EXPECT_TRUE(mentions(fault, "every user of this host")) << fault;
  for (const auto* allowed : {"insecure_cluster", "dev"})
    EXPECT_EQ(fault_of({{"discovery.seeds", "127.0.0.1:31998"}, {allowed, "true"}}), "accepted")
        << allowed;
  EXPECT_EQ(fault_of({{"discovery.seeds", "127.0.0.1:31998"},
                      {"tls.cert", "/a.crt"},
                      {"tls.key", "/a.key"},
                      {"tls.ca", "/ca.crt"}}),
            "accepted");
}

TEST(validate, the_metrics_address_alone_is_checked_too) {
  EXPECT_TRUE(mentions(fault_of({{"metrics.bind", "0.0.0.0"}}), "`metrics.bind` is 0.0.0.0"));
  EXPECT_EQ(fault_of({{"metrics.bind", "0.0.0.0"}, {"insecure_cluster", "true"}}), "accepted");
  EXPECT_EQ(fault_of({{"metrics.bind", "0.0.0.0"}, {"metrics.enabled", "false"}}), "accepted");
  EXPECT_TRUE(
      mentions(fault_of({{"net.bind", "10.0.0.1"}, {"metrics.bind", "127.0.0.1"}}), "`net.bind`"));
}

/// Returns the faults that are found in a configuration with TLS and these further flags.
std::string fault_of_tls(std::vector<given_flag> flags) {
  flags.insert(flags.end(), {{"tls.cert", "/a.crt"}, {"tls.key", "/a.key"}, {"tls.ca", "/ca.crt"}});
  return fault_of(std::move(flags));
}

TEST(validate, tls_opens_an_address_for_all_ports) {
  EXPECT_EQ(fault_of_tls({{"net.bind", "10.0.0.1"}}), "accepted");
  EXPECT_EQ(fault_of_tls({{"metrics.bind", "0.0.0.0"}}), "accepted");
  EXPECT_EQ(fault_of_tls({{"net.bind", "10.0.0.1"}, {"metrics.readers", "anyone"}}), "accepted");
}

TEST(validate, pages_inside_tls_do_not_travel_by_rdma) {
  const auto fault = fault_of_tls({{"tls.data", "full"}, {"data_plane", "verbs"}});
  EXPECT_TRUE(mentions(fault, "`tls.data` is full")) << fault;
  EXPECT_TRUE(mentions(fault, "not inside TLS")) << fault;
  EXPECT_EQ(fault_of_tls({{"tls.data", "full"}, {"data_plane", "auto"}}), "accepted");
  EXPECT_EQ(fault_of_tls({{"tls.data", "handshake"}, {"data_plane", "verbs"}}), "accepted");
}

TEST(validate, tls_takes_all_of_its_files_or_none) {
  const given_flag cert{"tls.cert", "/a.crt"}, key{"tls.key", "/a.key"}, ca{"tls.ca", "/ca.crt"};
  EXPECT_EQ(fault_of({cert, key, ca}), "accepted");
  EXPECT_TRUE(mentions(fault_of({cert, key}), "`tls.ca` is"));
  EXPECT_TRUE(mentions(fault_of({cert, ca}), "`tls.key` is"));
  EXPECT_TRUE(mentions(fault_of({key, ca}), "`tls.cert` is"));
}

TEST(validate, a_wildcard_cannot_be_advertised) {
  EXPECT_TRUE(mentions(fault_of({{"net.bind", "0.0.0.0"}, {"insecure_cluster", "true"}}),
                       "`net.advertise` is 0.0.0.0 (default (net.bind))"));
  EXPECT_EQ(
      fault_of({{"net.bind", "0.0.0.0"}, {"net.advertise", "host1"}, {"insecure_cluster", "true"}}),
      "accepted");
}

TEST(validate, an_address_of_this_host_alone_is_not_advertised_to_others) {
  for (const char* advertised : {"127.0.0.1", "localhost", "::1"}) {
    const auto fault = fault_of(
        {{"net.bind", "10.0.0.1"}, {"net.advertise", advertised}, {"insecure_cluster", "true"}});
    EXPECT_TRUE(mentions(fault, "`net.advertise` is " + std::string(advertised))) << fault;
    EXPECT_TRUE(mentions(fault, "other hosts would look for this node on themselves")) << fault;
  }
  EXPECT_EQ(fault_of({{"net.bind", "127.0.0.1"}, {"net.advertise", "127.0.0.2"}}), "accepted");
}

TEST(validate, two_services_cannot_share_a_port_but_any_free_port_is_no_port) {
  EXPECT_TRUE(mentions(fault_of({{"net.data_port", "31998"}}), "cannot share a port"));
  EXPECT_TRUE(mentions(fault_of({{"net.http_port", "31998"}}), "cannot share a port"));
  EXPECT_TRUE(mentions(fault_of({{"net.http_port", "31999"}}), "cannot share a port"));
  EXPECT_TRUE(mentions(fault_of({{"net.lookup_port", "9100"}, {"net.http_port", "9100"}}),
                       "cannot share a port"));
  for (const char* other : {"net.control_port", "net.data_port", "net.lookup_port"})
    EXPECT_EQ(fault_of({{other, "9100"}, {"net.http_port", "9100"}, {"metrics.enabled", "false"}}),
              "accepted")
        << other << ": without metrics nothing listens at the HTTP port";
  EXPECT_EQ(fault_of({{"net.control_port", "0"}, {"net.data_port", "0"}, {"net.http_port", "0"}}),
            "accepted");
}

TEST(validate, expiry_is_at_least_three_heartbeats) {
  EXPECT_EQ(fault_of({{"discovery.heartbeat", "500ms"}, {"discovery.expiry", "1500ms"}}),
            "accepted");
  EXPECT_TRUE(mentions(fault_of({{"discovery.heartbeat", "500ms"}, {"discovery.expiry", "1499ms"}}),
                       "set `discovery.expiry` to 1500ms or more"));
}

TEST(validate, eviction_needs_room_between_its_marks) {
  EXPECT_TRUE(mentions(fault_of({{"pool.free_low", "0.02"}}), "`pool.free_high` above"));
  EXPECT_TRUE(mentions(fault_of({{"pool.free_low", "0.03"}}), "`pool.free_high` above"));
  EXPECT_EQ(fault_of({{"pool.free_low", "0.019"}}), "accepted");
}

TEST(validate, the_pool_holds_at_least_one_mebibyte_and_one_huge_page) {
  EXPECT_TRUE(mentions(fault_of({{"pool.size", "1048575"}}), "out of bounds: 1MiB"));
  EXPECT_EQ(fault_of({{"pool.size", "1MiB"}}), "accepted");
  EXPECT_TRUE(mentions(fault_of({{"pool.size", "1MiB"}, {"pool.huge_pages", "2MiB"}}),
                       "smaller than one huge page"));
  EXPECT_EQ(fault_of({{"pool.size", "1GiB"}, {"pool.huge_pages", "1GiB"}}), "accepted");
}

TEST(validate, names_are_words_of_at_most_255_bytes) {
  EXPECT_EQ(fault_of({}, std::string(255, 'h')), "accepted");
  EXPECT_TRUE(mentions(fault_of({}, std::string(256, 'h')), "`node.name`"));
  EXPECT_TRUE(mentions(fault_of({}, "two words"), "without spaces"));
  EXPECT_TRUE(mentions(fault_of({}, ""), "set another one"));
  EXPECT_EQ(fault_of({{"pool.name_prefix", std::string(64, 'p')}}), "accepted");
  EXPECT_TRUE(mentions(fault_of({{"pool.name_prefix", std::string(65, 'p')}}), "at most 64"));
  EXPECT_TRUE(mentions(fault_of({{"pool.name_prefix", "../x"}}), "file name"));
}

TEST(validate, the_log_is_at_an_absolute_path) {
  EXPECT_EQ(fault_of({{"log.file", "/log/node.log"}}), "accepted");
  EXPECT_TRUE(mentions(fault_of({{"log.file", "node.log"}}), "starts with `/`"));
}

/// Returns the faults that are found in a configuration with a disk tier at /disk and these further
/// flags.
std::string fault_of_disk(std::vector<given_flag> flags, std::string host_name = "here") {
  flags.push_back({"disk.path", "/disk"});
  return fault_of(std::move(flags), std::move(host_name));
}

TEST(validate, the_disk_is_at_an_absolute_path_in_a_folder_called_like_the_node) {
  EXPECT_EQ(fault_of_disk({}), "accepted");
  EXPECT_TRUE(mentions(fault_of({{"disk.path", "disk"}}), "starts with `/`"));
  for (const char* name : {".", "..", "a/b", "/"})
    EXPECT_TRUE(mentions(fault_of_disk({}, name), "`node.name`")) << name;
  EXPECT_EQ(fault_of_disk({}, "..."), "accepted");
  EXPECT_EQ(fault_of({}, "a/b"), "accepted");
}

TEST(validate, eviction_from_disk_needs_room_between_its_marks) {
  EXPECT_TRUE(mentions(fault_of_disk({{"disk.low_watermark", "0.95"}}), "below `disk.high_"));
  EXPECT_TRUE(mentions(fault_of_disk({{"disk.high_watermark", "0.89"}}), "below `disk.high_"));
  EXPECT_EQ(fault_of_disk({{"disk.low_watermark", "0.94"}}), "accepted");
}

TEST(validate, the_disk_holds_at_least_four_buckets) {
  EXPECT_EQ(fault_of_disk({{"disk.size", "64MiB"}}), "accepted");
  node_config::disk_section disk;
  disk.bucket_bytes = 256 << 20;
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> files{
      {64 << 20, 16 << 20}, {1 << 30, 256 << 20}, {1ull << 40, 256 << 20}};
  for (const auto& [size, file] : files) {
    disk.size_bytes = size;
    EXPECT_EQ(disk.file_bytes(), file) << size;
  }
}

TEST(validate, the_age_of_a_page_on_disk_is_told_in_seconds) {
  EXPECT_TRUE(mentions(fault_of_disk({{"disk.ttl", "999ms"}}), "set 1s or more"));
  EXPECT_EQ(fault_of_disk({{"disk.ttl", "1s"}}), "accepted");
  EXPECT_EQ(fault_of_disk({{"disk.ttl", "0s"}}), "accepted");
}

TEST(validate, without_a_disk_its_options_do_not_matter) {
  const std::vector<given_flag> wrong{{"disk.low_watermark", "0.99"}, {"disk.ttl", "1ms"}};
  EXPECT_EQ(fault_of(wrong), "accepted");
  EXPECT_NE(fault_of_disk(wrong), "accepted");
  auto disabled = wrong;
  disabled.push_back({"disk.enabled", "false"});
  EXPECT_EQ(fault_of_disk(disabled), "accepted");
}

TEST(validate, several_faults_are_reported_together) {
  const auto fault = fault_of({{"net.bind", "10.0.0.1"}, {"pool.free_low", "0.5"}});
  EXPECT_TRUE(mentions(fault, "`net.bind`"));
  EXPECT_TRUE(mentions(fault, "\n`pool.free_low`"));
}

} // namespace
} // namespace peercache::config
