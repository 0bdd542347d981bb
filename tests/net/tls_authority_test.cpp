#include "net/tls_authority.hpp"
#include "net/tls_certificate.hpp"
#include "net/tls_identity.hpp"
#include "tests/support/certificates.hpp"

#include <gmock/gmock.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

namespace peercache::net::tls_authority_test {
namespace {

using testing::HasSubstr;

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

TEST(tls_authority, keys_are_for_their_owner_alone) {
  certificates ca;
  const auto files = ca.node();
  EXPECT_EQ(mode_of(files.key), 0600u);
  EXPECT_EQ(mode_of(ca.folder() + "/ca/ca.key"), 0600u);
  EXPECT_EQ(mode_of(files.certificate) & 0444u, 0444u & mode_of(files.certificate));
}

TEST(tls_authority, a_key_that_cannot_take_its_place_is_left_nowhere) {
  certificates ca;
  auto opened = tls_authority::open(ca.folder() + "/ca");
  ASSERT_TRUE(opened);
  const auto out = ca.folder() + "/out";
  ASSERT_TRUE(opened->issue(tls_role::node, "n1", out));
  ASSERT_EQ(::rename((out + "/n1.key").c_str(), (out + "/moved").c_str()), 0);
  // A folder with the file's name cannot be replaced.
  ASSERT_EQ(::mkdir((out + "/n1.key").c_str(), 0700), 0);
  EXPECT_FALSE(opened->issue(tls_role::node, "n1", out));
  EXPECT_EQ(mode_of(out + "/n1.key.new"), 0u);
}

TEST(tls_authority, a_ca_is_not_replaced) {
  certificates ca;
  auto again = tls_authority::make(ca.folder() + "/ca", "peercache");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, errc::refused);
}

TEST(tls_authority, an_opened_ca_issues_for_the_cluster_that_it_was_made_for) {
  certificates ca("prod/eu west");
  auto opened = tls_authority::open(ca.folder() + "/ca");
  ASSERT_TRUE(opened);
  auto made = opened->issue(tls_role::node, "n1", ca.folder() + "/out");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->uri, "peercache://prod%2Feu%20west/node/n1");
  EXPECT_TRUE(
      tls_context::open({{made->certificate, made->key, opened->certificate()}, "prod/eu west"}));
}

TEST(tls_authority, a_nodes_certificate_is_for_its_name_as_a_host_too) {
  certificates ca;
  const auto is_for = [](const net::tls_files& files, const char* host) {
    const auto read = read_certificate(files.certificate);
    return X509_check_host(read->get(), host, 0, 0, nullptr) == 1;
  };
  EXPECT_TRUE(is_for(ca.node("host-17"), "host-17"));
  EXPECT_FALSE(is_for(ca.node("host-17"), "host-18"));
  EXPECT_FALSE(is_for(ca.client("engine"), "engine")) << "nobody connects to a client";
  EXPECT_TRUE(context_of(ca.node("no_host,name"))) << "other names are still names of nodes";
}

TEST(tls_authority, a_name_that_is_no_file_name_is_refused) {
  certificates ca;
  for (const std::string name : {"", ".", "..", "a/b", "a b", "a\n"})
    EXPECT_FALSE(ca.authority().issue(tls_role::node, name, ca.folder())) << name;
}

TEST(tls_authority, a_folder_without_a_ca_is_named) {
  auto opened = tls_authority::open("/nowhere");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("/nowhere/ca.crt"));
  EXPECT_THAT(opened.error().message, HasSubstr("peercache ca init"));
}

TEST(tls_identity, a_uri_says_what_it_was_made_of) {
  for (const auto& who : {tls_identity{"c", tls_role::node, "n"},
                          tls_identity{"a/node/b", tls_role::client, "c/node/d"},
                          tls_identity{"100%", tls_role::node, "%2F"}})
    EXPECT_EQ(identity_of(uri_of(who)), who) << uri_of(who);
}

TEST(tls_identity, other_uris_are_nobody) {
  for (const std::string uri :
       {"", "peercache://", "peercache://c", "peercache://c/node", "peercache://c/node/",
        "peercache:///node/n", "peercache://c/king/n", "peercache://c/node/n/x",
        "peercache://c/node/%6E", "peercache://c/node/%2f", "peercache://c/node/%2",
        "https://c/node/n", "peercache://c/NODE/n"})
    EXPECT_FALSE(identity_of(uri)) << uri;
}

} // namespace
} // namespace peercache::net::tls_authority_test
