#include "local_ring.hpp"

#include <csignal>

namespace peercache::real::connect_test {

namespace {

using new_client = local_ring;

constexpr std::uint32_t pages = 64;

} // namespace

TEST_F(new_client, can_ask_every_member_at_once) {
  put(*client_of(1), 0, pages);
  std::vector<page_key> keys;
  for (std::uint32_t id = 0; id < pages; ++id)
    keys.push_back(key_of(id));
  for (int round = 0; round < 30; ++round) {
    auto client = client_of(0);
    ASSERT_NE(client, nullptr);
    std::vector<client::page_result> results(pages);
    client->exists(keys, results);
    for (const auto& page : results)
      ASSERT_EQ(to_string(page.status), to_string(page_status::hit)) << "client " << round;
  }
}

TEST_F(new_client, waits_for_a_silent_member_no_longer_than_a_dial_may_take) {
  put(*client_of(1), 0, pages);
  freeze(2);
  auto begin = clock::now();
  auto client = client_of(0, milliseconds(5000));
  EXPECT_LT(clock::now() - begin, milliseconds(1100)) << "its handshake is given up after 1.2 s";
  ASSERT_NE(client, nullptr);
  EXPECT_GT(count_existing(*client, 0, pages), 0u);
  node(2).process().signal(SIGCONT);
}

} // namespace peercache::real::connect_test
