#include "client/session/connect_fault.hpp"

#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>
#include <gtest/gtest.h>

namespace peercache::client {

TEST(connect_fault, the_other_sides_own_words_are_kept) {
  auto refused = fault_of(caf::make_error(caf::sec::incompatible_application_ids,
                                          std::string{"it belongs to cluster 'a'"}));
  EXPECT_EQ(refused.code, errc::incompatible);
  EXPECT_EQ(refused.message, "it belongs to cluster 'a'");
  auto full = fault_of(caf::make_error(caf::sec::runtime_error, std::string{"too many sessions"}));
  EXPECT_EQ(full.code, errc::refused);
  EXPECT_EQ(full.message, "too many sessions");
  auto dial = fault_of(
      caf::make_error(caf::sec::cannot_connect_to_node, std::string{"Connection refused"}));
  EXPECT_EQ(dial.code, errc::unreachable);
  EXPECT_EQ(dial.message, "Connection refused");
}

TEST(connect_fault, no_error_of_caf_is_told_in_cafs_words) {
  for (auto code = static_cast<std::uint8_t>(caf::sec::unexpected_message);
       code <= static_cast<std::uint8_t>(caf::sec::bad_function_call); ++code) {
    auto fault = fault_of(caf::make_error(static_cast<caf::sec>(code)));
    EXPECT_FALSE(fault.message.empty()) << unsigned{code};
    for (const char* foreign : {"error(", "_", "sec::"})
      EXPECT_EQ(fault.message.find(foreign), std::string::npos) << fault.message;
  }
  EXPECT_FALSE(fault_of(caf::exit_reason::kill).message.empty());
}

TEST(connect_fault, what_is_no_node_and_who_does_not_answer_are_told_apart) {
  EXPECT_EQ(fault_of(caf::sec::request_timeout).code, errc::timed_out);
  EXPECT_EQ(fault_of(caf::sec::request_receiver_down).code, errc::closed);
  for (auto code : {caf::sec::disconnect_during_handshake, caf::sec::malformed_basp_message}) {
    auto stranger = fault_of(code);
    EXPECT_EQ(stranger.code, errc::unreachable);
    EXPECT_NE(stranger.message.find("no control port"), std::string::npos) << stranger.message;
  }
  EXPECT_EQ(fault_of(caf::sec::incompatible_versions).code, errc::unreachable)
      << "CAF's own refusal comes from a program that is none of ours";
}

TEST(connect_fault, silence_and_a_refusal_read_differently_and_name_the_address) {
  auto silent = connect_fault("host7", 31998, {errc::unreachable, "Connection refused"});
  EXPECT_EQ(silent.code, errc::unreachable);
  EXPECT_EQ(silent.message, "no peercache-node answers at host7:31998: Connection refused");
  auto refused = connect_fault("fd00::1", 5, {errc::incompatible, "it belongs to cluster 'a'"});
  EXPECT_EQ(refused.code, errc::incompatible);
  EXPECT_EQ(refused.message,
            "the peercache-node at [fd00::1]:5 answers, but it belongs to cluster 'a'");
}

TEST(connect_fault, a_closed_look_up_port_is_named) {
  discovery::member node;
  node.host = "fd00::1";
  node.lookup_port = 31'999;
  const auto fault =
      lookup_port_fault("near", 31'998, node, {errc::timed_out, "no answer in time"});
  EXPECT_EQ(fault.code, errc::timed_out);
  EXPECT_EQ(fault.message,
            "the peercache-node at near:31998 answers, but not at its look-up port "
            "[fd00::1]:31999 (net.lookup_port; one that asks for other certificates, "
            "tls.*, is silent too): no answer in time");
}

} // namespace peercache::client
