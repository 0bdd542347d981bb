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

} // namespace peercache::cli::session_rows_test
