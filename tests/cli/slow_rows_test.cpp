#include "cli/slow_rows.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::slow_rows_test {
namespace {

link::slow_call call_of(std::uint64_t took_us) {
  link::slow_call call;
  call.call = static_cast<std::uint8_t>(link::call_kind::get);
  call.took_us = took_us;
  call.age_ms = 1000;
  return call;
}

TEST(slow_rows, show_the_slowest_call_of_all_clients_first) {
  link::calls_report told;
  told.clients.resize(2);
  told.clients[0].client = "client-1/0.2.0";
  told.clients[0].slow = {call_of(500), call_of(100)};
  told.clients[1].client = "client-2/0.2.0";
  told.clients[1].age_ms = 2000;
  told.clients[1].slow = {call_of(250)};
  std::vector<slow_row> rows;
  add_slow_calls("node-1", told, rows);
  sort_slowest(rows, 2);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].call.took_us, 500u);
  EXPECT_EQ(rows[1].call.took_us, 250u);
  EXPECT_EQ(rows[1].client, "client-2/0.2.0");
  EXPECT_EQ(rows[1].age_ms, 3000u) << "the call's age when it was told, and since";
}

TEST(slow_rows, name_what_was_waited_for) {
  slow_row row{"node-1", "client-7/0.2.0", 12'300, call_of(250'400)};
  row.call.waited_for = static_cast<std::uint8_t>(link::call_wait::peer);
  row.call.waited_us = 200'000;
  row.call.peer = "node-2";
  const auto cells = cells_of(row);
  EXPECT_EQ(cells.at(0), "250.4");
  EXPECT_EQ(cells.at(1), "get");
  EXPECT_EQ(cells.at(4), "peer node-2");
  EXPECT_EQ(cells.at(5), "200.0");
  EXPECT_EQ(cells.at(6), "12.3 s");
  row.call.waited_us = 25'000;
  EXPECT_EQ(cells_of(row).at(4), "nothing") << "a tenth of the call made it slow by no means";
  const auto json = to_json(row);
  EXPECT_EQ(json["waited_for"], "peer");
  EXPECT_EQ(json["peer"], "node-2");
}

TEST(slow_rows, take_numbers_that_nobody_knows_and_names_that_are_no_names) {
  slow_row row{"node-1", std::string("a\x1b[2J"), 0, call_of(1)};
  row.call.call = 200;
  row.call.waited_for = 200;
  row.call.peer = "\n";
  row.call.digest = "short";
  EXPECT_EQ(to_json(row)["call"], "unknown");
  EXPECT_EQ(to_json(row)["first_digest"], "");
  EXPECT_EQ(cells_of(row).at(4), "unknown ?");
  EXPECT_EQ(cells_of(row).at(7), "a?[2J");
}

} // namespace
} // namespace peercache::cli::slow_rows_test
