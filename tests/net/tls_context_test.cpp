#include "net/tls_context.hpp"
#include "tests/net/tls_pair.hpp"
#include "tests/support/certificates.hpp"

#include <filesystem>
#include <gmock/gmock.h>

namespace peercache::net::tls_context_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class tls_context_test : public testing::Test {
protected:
  certificates ca;
  tls_files files = ca.node();
  std::shared_ptr<tls_context> context = context_of(files);
  std::shared_ptr<tls_context> client = context_of(ca.client());

  bool lets_in() { return tls_pair(*client, *context).established(); }
  /// Shakes hands with the context. Returns the name in the certificate that it shows; empty when
  /// the handshake fails.
  std::string shown() {
    tls_pair pair(*client, *context);
    return pair.established() ? pair.dials.peer().name : "";
  }
  static std::string fault_of(const tls_files& wanted) {
    auto made = tls_context::open(wanted);
    return made ? "" : made.error().message;
  }
};

TEST_F(tls_context_test, files_that_do_not_fit_are_named) {
  auto wrong = files;
  wrong.key = ca.client("other").key;
  EXPECT_THAT(fault_of(wrong), HasSubstr("is not the key of"));
  wrong = files;
  wrong.certificate = ca.folder() + "/none.crt";
  EXPECT_THAT(fault_of(wrong), HasSubstr("none.crt"));
  wrong = files;
  // A temporary CA, whose files are gone.
  wrong.authority = certificates().authority().certificate();
  EXPECT_THAT(fault_of(wrong), HasSubstr("ca.crt"));
  certificates other;
  wrong.authority = other.authority().certificate();
  EXPECT_THAT(fault_of(wrong), HasSubstr("is not valid for"));
  wrong = files;
  wrong.cluster = "another";
  EXPECT_THAT(fault_of(wrong), HasSubstr("peercache://another/node/NAME"));
  EXPECT_THAT(fault_of(ca.issue(tls_role::node, "late", std::chrono::seconds(-60))),
              HasSubstr("expired"));
}

TEST_F(tls_context_test, unchanged_files_are_not_read_again) {
  EXPECT_FALSE(context->look_again());
}

TEST_F(tls_context_test, files_that_are_replaced_are_used_by_the_next_connection) {
  // The new certificate has another name, so that peers can tell which one the context uses.
  const auto next = ca.issue(tls_role::node, "node-2");
  fs::copy_file(next.key, files.key, fs::copy_options::overwrite_existing);
  fs::copy_file(next.certificate, files.certificate, fs::copy_options::overwrite_existing);
  EXPECT_TRUE(context->look_again());
  EXPECT_EQ(shown(), "node-2");
}

TEST_F(tls_context_test, while_files_do_not_fit_the_old_ones_stay_in_use) {
  const auto next = ca.issue(tls_role::node, "node-2");
  fs::copy_file(next.certificate, files.certificate, fs::copy_options::overwrite_existing);
  EXPECT_FALSE(context->look_again()) << "the key is the old one's";
  EXPECT_EQ(shown(), "node-1");
  fs::remove(files.key);
  EXPECT_FALSE(context->look_again());
  EXPECT_EQ(shown(), "node-1");
  std::ofstream(files.key) << "no key";
  EXPECT_FALSE(context->look_again());
  EXPECT_EQ(shown(), "node-1");
  fs::copy_file(next.key, files.key, fs::copy_options::overwrite_existing);
  EXPECT_TRUE(context->look_again());
  EXPECT_EQ(shown(), "node-2");
}

TEST_F(tls_context_test, a_ca_that_does_not_know_the_own_certificate_is_not_taken) {
  certificates other;
  fs::copy_file(other.authority().certificate(), files.authority,
                fs::copy_options::overwrite_existing);
  EXPECT_FALSE(context->look_again());
  EXPECT_TRUE(lets_in());
}

TEST_F(tls_context_test, members_of_two_cas_of_a_cluster_believe_each_other_while_one_goes) {
  certificates next;
  const auto both = ca.folder() + "/both.crt";
  for (const auto& authority : {ca.authority().certificate(), next.authority().certificate()})
    std::ofstream(both, std::ios::app) << std::ifstream(authority).rdbuf();
  auto old_node = files, new_client = next.client();
  old_node.authority = new_client.authority = both;
  EXPECT_TRUE(tls_pair(*context_of(new_client), *context_of(old_node)).established());
  auto new_node = next.node(), old_client = ca.client();
  new_node.authority = old_client.authority = both;
  EXPECT_TRUE(tls_pair(*context_of(old_client), *context_of(new_node)).established());
}

TEST_F(tls_context_test, files_that_could_not_be_read_are_tried_again) {
  const auto next = ca.issue(tls_role::node, "node-2");
  fs::copy_file(next.certificate, files.certificate, fs::copy_options::overwrite_existing);
  std::ofstream(files.key) << std::string(fs::file_size(next.key), 'x');
  const auto written_at = fs::last_write_time(files.key);
  EXPECT_FALSE(context->look_again());
  // Replaces the key in a way that changes neither the file's size nor its time.
  fs::copy_file(next.key, files.key, fs::copy_options::overwrite_existing);
  fs::last_write_time(files.key, written_at);
  EXPECT_TRUE(context->look_again());
  EXPECT_EQ(shown(), "node-2");
}

TEST_F(tls_context_test, a_session_outlives_the_files_that_it_began_with) {
  tls_pair pair(*client, *context);
  ASSERT_TRUE(pair.established());
  ca.issue(tls_role::node, "node-1");
  ASSERT_TRUE(context->look_again());
  ASSERT_EQ(pair.dials.send("abc", 3), 3);
  char got[3];
  EXPECT_EQ(pair.accepts.receive(got, 3), 3);
}

} // namespace
} // namespace peercache::net::tls_context_test
