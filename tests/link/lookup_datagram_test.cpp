#include "link/lookup_datagram.hpp"

#include "directory/wire.hpp"

#include <gtest/gtest.h>
#include <random>

namespace peercache::link {
namespace {

constexpr std::size_t key_bytes = directory::wire::key_bytes;

class lookup_datagram_test : public testing::Test {
protected:
  const incarnation owner{3, 4};
  const datagram_pass pass{17, *net::make_datagram_key()};
  lookup_datagrams_codec asking, answering;

  std::string question(std::uint64_t number = 5, std::size_t keys = 2) {
    std::string bytes;
    asking.append_question(bytes, pass, owner, number, std::string(keys * key_bytes, 'k'));
    return bytes;
  }
  std::string answer(std::uint64_t number, const std::string& body, std::uint64_t nonce = 1) {
    std::string bytes;
    answering.append_answer(bytes, pass.secret, owner, number, nonce, {lookup_reply::places, body});
    return bytes;
  }
  bool opens_question(const std::string& bytes) {
    return answering.question_of(bytes) &&
           answering.open_question(bytes, pass.secret, owner).has_value();
  }
  bool opens_answer(const std::string& bytes) {
    return asking.answered_by(bytes) && asking.open_answer(bytes, pass.secret, owner).has_value();
  }
};

} // namespace

TEST_F(lookup_datagram_test, a_question_arrives_as_it_was_asked) {
  const auto bytes = question(5, datagram_keys_max);
  const auto said = answering.question_of(bytes);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->client, 17u);
  EXPECT_EQ(said->number, 5u);
  const auto keys = answering.open_question(bytes, pass.secret, owner);
  ASSERT_TRUE(keys);
  EXPECT_EQ(*keys, std::string(datagram_keys_max * key_bytes, 'k'));
  EXPECT_EQ(bytes.find(std::string(8, 'k')), std::string::npos) << "keys do not travel in clear";
}

TEST_F(lookup_datagram_test, an_answer_arrives_as_it_was_given) {
  const std::string body(datagram_body_max, 'b');
  const auto bytes = answer(9, body);
  EXPECT_EQ(bytes.size(), net::datagram_socket::bytes_max);
  EXPECT_EQ(asking.answered_by(bytes), 9u);
  const auto said = asking.open_answer(bytes, pass.secret, owner);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->reply, lookup_reply::places);
  EXPECT_EQ(said->body, body);
}

TEST_F(lookup_datagram_test, no_byte_can_be_changed) {
  for (const auto& whole : {question(), answer(5, "places")})
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const char change : {'\1', '\x80'}) {
        auto bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ change);
        EXPECT_FALSE(opens_question(bytes)) << at;
        EXPECT_FALSE(opens_answer(bytes)) << at;
      }
}

TEST_F(lookup_datagram_test, no_byte_can_be_missing_or_added) {
  for (const auto& whole : {question(), answer(5, "places")})
    for (std::size_t size = 0; size <= whole.size() + 40; ++size) {
      auto bytes = whole;
      bytes.resize(size);
      if (size != whole.size()) {
        EXPECT_FALSE(opens_question(bytes)) << size;
        EXPECT_FALSE(opens_answer(bytes)) << size;
      }
    }
}

TEST_F(lookup_datagram_test, another_secret_or_another_process_opens_nothing) {
  const auto asked = question();
  const auto said = answer(5, "places");
  const auto other = *net::make_datagram_key();
  EXPECT_FALSE(answering.open_question(asked, other, owner));
  EXPECT_FALSE(asking.open_answer(said, other, owner));
  const incarnation next{3, 5};
  EXPECT_FALSE(answering.open_question(asked, pass.secret, next));
  EXPECT_FALSE(asking.open_answer(said, pass.secret, next));
  EXPECT_TRUE(opens_question(asked));
  EXPECT_TRUE(opens_answer(said));
}

TEST_F(lookup_datagram_test, an_answer_cannot_be_given_another_question_number) {
  auto bytes = answer(5, "places");
  const std::uint64_t other = 6;
  bytes.replace(8, sizeof other, reinterpret_cast<const char*>(&other), sizeof other);
  EXPECT_EQ(asking.answered_by(bytes), 6u);
  EXPECT_FALSE(opens_answer(bytes));
}

TEST_F(lookup_datagram_test, a_question_is_no_answer_and_an_answer_no_question) {
  EXPECT_FALSE(asking.answered_by(question()));
  EXPECT_FALSE(answering.question_of(answer(5, "places")));
  auto turned = question(5); // A question whose magic says that it is an answer.
  turned[3] = '2';
  EXPECT_FALSE(opens_answer(turned));
}

TEST_F(lookup_datagram_test, random_bytes_are_nothing) {
  std::mt19937 random(7);
  const auto good_question = question();
  const auto good_answer = answer(5, "places");
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 1500, '\0');
    for (auto& each : bytes)
      each = static_cast<char>(random());
    // Half of them have a header that is right.
    if (i % 2 == 0)
      bytes = (i % 4 == 0 ? good_question : good_answer).substr(0, datagram_header_bytes) + bytes;
    EXPECT_FALSE(opens_question(bytes));
    EXPECT_FALSE(opens_answer(bytes));
  }
}

TEST_F(lookup_datagram_test, a_pass_is_read_as_it_was_written_or_not_at_all) {
  const auto bytes = encode_pass(pass);
  EXPECT_EQ(bytes.size(), datagram_pass_bytes);
  EXPECT_EQ(read_pass(bytes), pass);
  EXPECT_EQ(read_pass(""), std::nullopt);
  EXPECT_EQ(read_pass(bytes + "x"), std::nullopt);
  EXPECT_EQ(read_pass(bytes.substr(1)), std::nullopt);
}

} // namespace peercache::link
