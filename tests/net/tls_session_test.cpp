#include "net/tls_session.hpp"
#include "tests/net/tls_pair.hpp"
#include "tests/net/tls_stranger.hpp"
#include "tests/support/certificates.hpp"

#include <gmock/gmock.h>

namespace peercache::net::tls_session_test {
namespace {

using testing::HasSubstr;
using step = tls_session::step;

class tls_session_test : public testing::Test {
protected:
  certificates ca;
  std::shared_ptr<tls_context> node = context_of(ca.node());
  std::shared_ptr<tls_context> client = context_of(ca.client());
};

TEST_F(tls_session_test, members_of_a_cluster_know_each_other_after_the_handshake) {
  tls_pair pair(*client, *node);
  ASSERT_TRUE(pair.established());
  EXPECT_EQ(pair.dials.peer(), (tls_identity{"peercache", tls_role::node, "node-1"}));
  EXPECT_EQ(pair.accepts.peer(), (tls_identity{"peercache", tls_role::client, "engine"}));
}

TEST_F(tls_session_test, bytes_arrive_whole_in_order_and_unreadable_on_the_way) {
  tls_pair pair(*client, *node);
  ASSERT_TRUE(pair.established());
  std::string sent(1u << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i)
    sent[i] = static_cast<char>(i * 7 + i / 251);
  std::string got, piece(5000, '\0');
  std::size_t at = 0;
  while (got.size() < sent.size()) {
    if (const auto done = pair.dials.send(sent.data() + at, sent.size() - at); done > 0)
      at += static_cast<std::size_t>(done);
    if (const auto done = pair.accepts.receive(piece.data(), piece.size()); done > 0)
      got.append(piece, 0, static_cast<std::size_t>(done));
  }
  EXPECT_EQ(got, sent);
  const std::string secret = "a prompt of somebody";
  ASSERT_EQ(pair.dials.send(secret.data(), secret.size()), ssize_t(secret.size()));
  const auto seen = ::recv(pair.ends[1].get(), piece.data(), piece.size(), 0);
  ASSERT_GT(seen, 0);
  EXPECT_EQ(piece.substr(0, static_cast<std::size_t>(seen)).find(secret), std::string::npos);
}

TEST_F(tls_session_test, what_was_decrypted_and_not_taken_is_told) {
  tls_pair pair(*client, *node);
  ASSERT_TRUE(pair.established());
  ASSERT_EQ(pair.dials.send("abcd", 4), 4);
  char one = 0;
  ASSERT_EQ(pair.accepts.receive(&one, 1), 1);
  EXPECT_EQ(pair.accepts.buffered_bytes(), 3u);
}

TEST_F(tls_session_test, nothing_to_receive_is_no_end) {
  tls_pair pair(*client, *node);
  ASSERT_TRUE(pair.established());
  char byte = 0;
  EXPECT_EQ(pair.accepts.receive(&byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(pair.accepts.awaited(), POLLIN);
}

TEST_F(tls_session_test, a_peer_that_is_gone_is_an_error_and_no_signal) {
  tls_pair pair(*client, *node);
  ASSERT_TRUE(pair.established());
  pair.ends[1].reset();
  EXPECT_EQ(pair.dials.send("x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(tls_session_test, an_end_that_the_session_did_not_announce_is_an_error) {
  tls_pair pair(*client, *node);
  ASSERT_TRUE(pair.established());
  ::shutdown(pair.ends[0].get(), SHUT_WR);
  char byte = 0;
  EXPECT_EQ(pair.accepts.receive(&byte, 1), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

TEST_F(tls_session_test, another_cluster_of_the_same_ca_is_refused) {
  auto files = ca.client("stranger");
  const auto other = tls_authority::open(ca.folder() + "/ca");
  // The accepting side belongs to another cluster: it trusts the peer's CA, but must refuse the
  // cluster's name in the certificate.
  certificates elsewhere("elsewhere");
  std::filesystem::copy_file(ca.folder() + "/ca/ca.crt", elsewhere.folder() + "/both.crt");
  std::ofstream(elsewhere.folder() + "/both.crt", std::ios::app)
      << std::ifstream(elsewhere.folder() + "/ca/ca.crt").rdbuf();
  auto there = elsewhere.node();
  there.authority = elsewhere.folder() + "/both.crt";
  tls_pair pair(*client, *context_of(there));
  pair.shake_hands();
  EXPECT_EQ(pair.dialled, step::refused);
  EXPECT_THAT(pair.dials.refusal(), HasSubstr("not valid here"));
  files.authority = there.authority;
  tls_pair named(*context_of(files), *context_of(there));
  named.shake_hands();
  EXPECT_FALSE(named.accepted == step::established);
  EXPECT_THAT(named.dials.refusal(), HasSubstr("of no member of this cluster"));
}

TEST_F(tls_session_test, a_certificate_of_another_ca_is_refused_by_either_side) {
  certificates other;
  tls_pair in(*context_of(other.client()), *node);
  in.shake_hands();
  EXPECT_EQ(in.dialled, step::refused);
  auto files = other.client();
  files.authority = ca.authority().certificate(); // The stranger trusts the node's CA.
  // A context does not open with one CA's certificate and another CA, so below the stranger trusts
  // only its own CA.
  EXPECT_FALSE(tls_context::open(files));
  tls_pair out(*client, *context_of(other.node()));
  out.shake_hands();
  EXPECT_EQ(out.dialled, step::refused);
  EXPECT_NE(out.accepted, step::established);
}

step accepted_by(tls_context& node, const tls_files* shown, std::string& refusal,
                 int version = TLS1_3_VERSION) {
  auto ends = tls_pair::make_ends();
  tls_stranger who(ends[0].get(), shown, version);
  auto accepts = node.accepted(ends[1].get());
  auto last = step::working;
  for (int round = 0; round < 100 && last == step::working; ++round) {
    who.shake_hands();
    last = accepts.shake_hands();
  }
  refusal = accepts.refusal();
  return last;
}

TEST_F(tls_session_test, strangers_are_refused_and_it_is_said_why) {
  std::string why;
  const auto own = ca.client();
  ASSERT_EQ(accepted_by(*node, &own, why), step::established) << why;
  EXPECT_EQ(accepted_by(*node, nullptr, why), step::refused);
  EXPECT_THAT(why, HasSubstr("did not return a certificate"));
  certificates other_ca;
  const auto of_other_ca = other_ca.client();
  EXPECT_EQ(accepted_by(*node, &of_other_ca, why), step::refused);
  EXPECT_THAT(why, HasSubstr("not valid here"));
  const auto expired = ca.issue(tls_role::client, "late", std::chrono::seconds(-60));
  EXPECT_EQ(accepted_by(*node, &expired, why), step::refused);
  EXPECT_THAT(why, HasSubstr("expired"));
  EXPECT_EQ(accepted_by(*node, &own, why, TLS1_2_VERSION), step::refused);
  EXPECT_THAT(why, HasSubstr("protocol"));
}

TEST_F(tls_session_test, plain_bytes_are_refused) {
  auto ends = tls_pair::make_ends();
  auto accepts = node->accepted(ends[1].get());
  const std::string plain = "PCL1, a greeting of a client without TLS";
  ASSERT_EQ(::send(ends[0].get(), plain.data(), plain.size(), 0), ssize_t(plain.size()));
  EXPECT_EQ(accepts.shake_hands(), step::refused);
  EXPECT_FALSE(accepts.refusal().empty());
}

TEST_F(tls_session_test, a_client_is_no_node_for_who_dials) {
  tls_pair pair(*client, *client);
  pair.shake_hands();
  EXPECT_EQ(pair.dialled, step::refused);
}

} // namespace
} // namespace peercache::net::tls_session_test
