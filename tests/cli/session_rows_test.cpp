#include "cli/session_rows.hpp"

#include <gtest/gtest.h>

namespace peercache::cli::session_rows_test {

namespace {

link::session_row session_of(const std::string& client) {
  link::session_row row;
  row.client = client;
  return row;
}

} // namespace

TEST(session_rows, a_clients_name_is_taken_apart) {
  const auto row = session_of("client-4711/0.3.0");
  const auto json = session_json("node-1", row);
  EXPECT_EQ(json["pid"], 4711);
  EXPECT_EQ(json["version"], "0.3.0");
  const auto cells = session_cells("node-1", row);
  EXPECT_EQ(cells.at(1), "4711");
  EXPECT_EQ(cells.at(2), "0.3.0");
}

TEST(session_rows, a_name_of_another_form_has_no_pid_and_ends_nothing) {
  for (const auto* name :
       {"", "-", "/", "-/", "client-/1", "client-abc/1", "client-12x/1", "client--5/1", "a/b-c",
        "client- 7/1", "client-99999999999999999999999/1"}) {
    const auto json = session_json("node-1", session_of(name));
    EXPECT_TRUE(json["pid"].is_null()) << name;
    EXPECT_EQ(json["client"], name);
    EXPECT_EQ(session_cells("node-1", session_of(name)).at(1), name);
  }
}

TEST(session_rows, a_table_shows_no_control_characters_and_no_endless_names) {
  EXPECT_EQ(session_cells("node-1", session_of("a\x1b[2J\nb\xff\x7f")).at(1), "a?[2J?b??");
  EXPECT_EQ(session_cells("node-1", session_of("client-7/1\x1b\r2")).at(2), "1??2");
  EXPECT_EQ(session_cells("node-1", session_of(std::string(100'000, 'x'))).at(1).size(), 256u);
}

TEST(session_rows, name_the_key_spaces_and_why_a_client_is_slow) {
  auto row = session_of("client-7/0.2.0");
  EXPECT_EQ(session_cells("node-1", row).at(4), "connected");
  EXPECT_EQ(session_lines("node-1", row), "");
  row.slow_path = "it cannot map the pool";
  row.spaces.resize(2);
  row.spaces[0].door = "sglang";
  row.spaces[0].fields = {"llama", "bf16\x1b"};
  row.spaces[0].asked = 1200;
  row.spaces[1].space = 0xabc;
  row.spaces[1].stored = 3;
  EXPECT_EQ(session_cells("node-1", row).at(4), "slow path");
  EXPECT_EQ(session_lines("node-1", row),
            "node-1 7: slow path: it cannot map the pool\n"
            "node-1 7: sglang llama, bf16?: asked for 1,200 pages, stored 0\n"
            "node-1 7: space 0000000000000abc: asked for 0 pages, stored 3\n");
  const auto json = session_json("node-1", row);
  EXPECT_EQ(json["slow_path"], "it cannot map the pool");
  EXPECT_EQ(json["spaces"][0]["fields"][1], "bf16?");
  EXPECT_EQ(json["spaces"][1]["space"], "0000000000000abc");
}

} // namespace peercache::cli::session_rows_test
