#include "link/basp_guard.hpp"

#include "tests/support/actor_fixture.hpp"
#include "tests/support/basp_frames.hpp"

#include <caf/exit_reason.hpp>
#include <gmock/gmock.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace peercache::link::basp_guard_test {
namespace {

using operation = basp_frames::operation;

class basp_guard_test : public test::actor_fixture {
protected:
  /// Returns why the guard refuses a frame; empty if it does not. Gives it the frame's header and
  /// payload one after the other, as CAF reads them.
  static std::string told(basp_guard& guard, std::string_view frame) {
    constexpr auto header = caf::io::basp::header_size;
    const auto first = guard.refusal_of(frame.substr(0, header));
    if (!first.empty() || frame.size() <= header)
      return std::string(first);
    return std::string(guard.refusal_of(frame.substr(header)));
  }
  /// Returns why a new guard refuses a frame that comes after the peer's handshake; empty if it
  /// does not.
  std::string told(const std::string& frame) {
    basp_guard guard;
    EXPECT_EQ(told(guard, peer.handshake()), "");
    return told(guard, frame);
  }
  template <class... T>
  std::string told_of(T... values) {
    return told(peer.direct(7, caf::make_message(std::move(values)...)));
  }
  static std::uint64_t answer_id() { return caf::make_message_id(3).response_id().integer_value(); }
  /// Returns why a guard refuses this error as the answer to a request; empty if it does not.
  std::string answered(const caf::error& why) {
    return told(peer.direct(7, peer.written(caf::make_message(why)), answer_id()));
  }
  template <caf::type_id_t... Offsets>
  void expect_ours_pass(std::integer_sequence<caf::type_id_t, Offsets...>) {
    constexpr auto begin = caf::id_block::peercache::begin;
    (expect_passes<caf::type_by_id<begin + Offsets>>(), ...);
  }
  template <class T>
  void expect_passes() {
    EXPECT_EQ(told_of(typename T::type{}), "");
  }

  static caf::node_id process(std::uint32_t pid) {
    caf::node_id::default_data::host_id_type host{};
    host[0] = 1;
    return caf::make_node_id(pid, host);
  }

  basp_frames peer{system, process(1)};
  caf::actor some_ = caf::actor_cast<caf::actor>(self);
};

TEST_F(basp_guard_test, messages_of_numbers_texts_atoms_and_our_types_pass) {
  EXPECT_EQ(told_of(std::string("text"), std::uint8_t{1}, std::uint16_t{1}, std::uint32_t{1},
                    std::uint64_t{1}, std::int8_t{1}, std::int16_t{1}, std::int32_t{1},
                    std::int64_t{1}, true, 0.5, 0.5f),
            "");
  EXPECT_EQ(told_of(hello_atom_v, wire_version, std::string("cluster"), std::string("name")), "");
  EXPECT_EQ(told(peer.direct(7, caf::message{})), "") << "the answer of who has nothing to say";
  expect_ours_pass(
      std::make_integer_sequence<caf::type_id_t, caf::id_block::peercache::end -
                                                     caf::id_block::peercache::begin>{});
}

TEST_F(basp_guard_test, errors_with_a_plain_context_pass_and_others_do_not) {
  EXPECT_EQ(answered(caf::make_error(caf::sec::request_timeout)), "");
  EXPECT_EQ(answered(caf::make_error(caf::sec::runtime_error, std::string("why"), 7)), "");
  const auto deep = caf::make_error(caf::sec::runtime_error,
                                    caf::make_error(caf::sec::runtime_error, std::string("why")));
  EXPECT_THAT(answered(deep), testing::HasSubstr("a context that is not plain"));
  EXPECT_THAT(told_of(caf::make_error(caf::sec::request_timeout)),
              testing::HasSubstr("answers nothing"));
  EXPECT_NE(told_of(caf::make_error(caf::sec::runtime_error), std::string("text")), "")
      << "not on its own";
}

TEST_F(basp_guard_test, what_caf_says_of_itself_passes) {
  const auto here = peer.written(process(1)), there = peer.written(process(2));
  const auto ended =
      peer.written(process(1), process(2), caf::make_error(caf::exit_reason::user_shutdown));
  for (const auto greeting : {operation::client_handshake, operation::server_handshake}) {
    basp_guard guard;
    const std::set<std::string> interface { "a", "b" };
    EXPECT_EQ(told(guard, peer.frame(greeting, here + peer.written(std::vector<std::string>{"id"},
                                                                   std::uint64_t{3}, interface))),
              "");
    EXPECT_EQ(told(guard, peer.frame(operation::heartbeat, "")), "");
    EXPECT_EQ(told(guard, peer.frame(operation::monitor_message, here + there, 0, 9)), "");
    EXPECT_EQ(told(guard, peer.frame(operation::down_message, ended, 0, 0, 0, 9)), "");
    // CAF starts a helper actor for each peer, which asks the peer for this and must get an answer.
    const auto asked =
        peer.written(caf::make_message(caf::sys_atom_v, caf::get_atom_v, std::string("info")));
    EXPECT_EQ(told(guard, peer.direct(static_cast<std::uint64_t>(caf::atom("SpawnServ")), asked,
                                      caf::message_id::default_async_value, 1)),
              "");
    EXPECT_EQ(
        told(guard, peer.direct(9, caf::make_message(caf::ok_atom_v, std::string("info"),
                                                     caf::actor_cast<caf::strong_actor_ptr>(some_),
                                                     std::string("name")))),
        "");
  }
}

TEST_F(basp_guard_test, what_ends_actors_is_refused) {
  EXPECT_NE(told_of(caf::exit_msg{{}, caf::exit_reason::kill}), "");
  EXPECT_NE(told_of(caf::down_msg{{}, caf::exit_reason::kill}), "");
  EXPECT_NE(told_of(caf::group_down_msg{}), "");
  const auto actor = caf::actor_cast<caf::strong_actor_ptr>(some_);
  EXPECT_NE(told_of(caf::link_atom_v, actor), "") << "a link, by which an actor's end is another's";
  EXPECT_NE(told_of(some_), "") << "an actor without a type";
}

TEST_F(basp_guard_test, texts_and_bytes_for_which_caf_makes_room_first_are_refused) {
  for (const auto* type : {"@charbuf", "@u16str", "@u32str", "@strvec", "@strmap", "@strset",
                           "@config_value", "@new_data_msg", "@no_such", "no_such", ""})
    EXPECT_NE(told(peer.direct(7, basp_frames::types(std::string("@<>+") + type) +
                                      basp_frames::length(1u << 30))),
              "")
        << type;
}

TEST_F(basp_guard_test, messages_in_messages_and_streams_are_refused) {
  EXPECT_NE(told(peer.direct(7, basp_frames::nested(1))), "");
  EXPECT_NE(told(peer.direct(7, basp_frames::nested(100'000))), "");
  EXPECT_NE(told_of(caf::open_stream_msg{}), "");
  const auto empty = peer.written(caf::message{});
  for (const std::uint64_t category : {2u, 3u})
    EXPECT_NE(told(peer.direct(7, empty, category << 60)), "") << category;
  for (const std::uint64_t category : {0u, 1u})
    EXPECT_EQ(told(peer.direct(7, empty, category << 60)), "") << category;
}

TEST_F(basp_guard_test, messages_for_actors_of_caf_and_those_passed_on_are_refused) {
  const auto said = peer.written(caf::make_message(caf::get_atom_v, std::string("key")));
  const auto named = [&](caf::atom_value name, const std::string& message) {
    return told(peer.direct(static_cast<std::uint64_t>(name), message,
                            caf::message_id::default_async_value, 1));
  };
  EXPECT_NE(named(caf::atom("ConfigServ"), said), "");
  EXPECT_NE(named(caf::atom("SpawnServ"), said), "") << "only the helper's question";
  const auto stages = peer.written(std::vector<caf::strong_actor_ptr>(2));
  EXPECT_NE(told(peer.frame(operation::direct_message, stages + said, 0, 7)), "");
  const auto nodes = peer.written(process(1), process(2));
  EXPECT_NE(told(peer.frame(operation::routed_message, nodes + '\0' + said, 0, 7)), "");
}

TEST_F(basp_guard_test, nobody_speaks_for_another_process_or_before_its_handshake) {
  const auto here = peer.written(process(1)), there = peer.written(process(2));
  const auto ended = peer.written(caf::make_error(caf::exit_reason::kill));
  EXPECT_NE(told(peer.frame(operation::down_message, there + here + ended, 0, 0, 0, 9)), "");
  EXPECT_NE(told(peer.frame(operation::monitor_message, there + here, 0, 9)), "");
  EXPECT_EQ(told(peer.handshake()), "") << "who meets on two connections says which is to stay";
  EXPECT_NE(told(peer.frame(operation::client_handshake, there)), "") << "another name";
  for (const auto& early :
       {peer.direct(7, caf::make_message(1)), peer.frame(operation::heartbeat, "")}) {
    basp_guard guard;
    EXPECT_NE(told(guard, early), "");
  }
  basp_guard guard;
  const auto by_uri = peer.written(caf::atom("uri"), std::string("file:/etc/passwd/and/more"));
  EXPECT_NE(told(guard, peer.frame(operation::client_handshake, by_uri)), "");
}

TEST_F(basp_guard_test, nobody_selects_a_connection_before_its_handshake) {
  constexpr auto selects = caf::io::basp::header::select_connection_flag;
  for (const auto greeting : {operation::client_handshake, operation::server_handshake}) {
    const auto selecting = peer.frame(greeting, peer.written(process(1)), 0, 0, selects);
    EXPECT_EQ(told(selecting), "") << "after a handshake";
    basp_guard guard;
    EXPECT_THAT(told(guard, selecting), testing::HasSubstr("before it has shaken hands"));
  }
}

TEST_F(basp_guard_test, whatever_is_cut_short_is_refused) {
  const auto why = caf::make_error(caf::sec::runtime_error, std::string("why"));
  const auto whole = '\0' + peer.written(caf::make_message(why));
  // Leaves out the last bytes, the error's text, which CAF itself checks when it reads the text.
  constexpr std::size_t text_bytes = 4;
  for (std::size_t bytes = 1; bytes < whole.size() - text_bytes; ++bytes)
    EXPECT_NE(told(peer.frame(operation::direct_message, whole.substr(0, bytes), answer_id(), 7)),
              "")
        << bytes;
  EXPECT_NE(told(peer.frame(operation::direct_message, "", 0, 7)), "");
  EXPECT_NE(told(peer.frame(operation::heartbeat, "more", 0, 7)), "");
  const auto here = peer.written(process(1));
  EXPECT_NE(told(peer.frame(operation::down_message, here + here)), "");
}

} // namespace
} // namespace peercache::link::basp_guard_test
