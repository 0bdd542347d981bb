// Tests of the C library: runs a program in C99 (program.c) against running nodes.
#include "../local_ring.hpp"

#include <csignal>
#include <sstream>

namespace peercache::real::c_library_test {
namespace {

class c_library : public local_ring {
protected:
  std::vector<std::string> words(const std::string& of) const {
    return {PEERCACHE_C_PROGRAM, of, "127.0.0.1", address(0).substr(address(0).find(':') + 1),
            cluster()};
  }
  void expect_as_said(const std::string& of) const {
    const auto done = run_program(words(of));
    EXPECT_EQ(done.exit_code, 0) << done.output;
  }
};

clock::time_point at_ms(double milliseconds_of_clock) {
  return clock::time_point{std::chrono::duration_cast<clock::duration>(
      std::chrono::duration<double, std::milli>{milliseconds_of_clock})};
}

/// Puts the page that the case `deadline` of program.c gets.
void put_asked_page(client::cache_client& client) {
  const std::string_view fields[] = {"c-test", "bf16"};
  const std::vector<std::byte> bytes(16384, std::byte{1});
  const client::const_part part{bytes.data(), static_cast<std::uint32_t>(bytes.size())};
  const client::set_page page{key_space{fields}.key_of("of a frozen node"), {&part, 1}};
  client::page_result stored;
  client.set({&page, 1}, {&stored, 1});
  ASSERT_EQ(stored.status, page_status::stored);
  ASSERT_TRUE(client.flush());
}

} // namespace

TEST_F(c_library, moves_finds_locates_and_withdraws_pages) {
  expect_as_said("pages");
}

TEST_F(c_library, refuses_arguments_that_make_no_sense_with_a_sentence) {
  expect_as_said("arguments");
}

TEST_F(c_library, serves_programs_whose_structs_have_grown) {
  expect_as_said("structs_that_grew");
}

TEST_F(c_library, tells_of_started_calls_by_callback_and_by_descriptor) {
  expect_as_said("completions");
}

TEST_F(c_library, refuses_more_started_calls_than_it_was_opened_for) {
  expect_as_said("limit_of_started_calls");
}

TEST_F(c_library, serves_two_threads_each_with_its_own_sentence) {
  expect_as_said("threads");
}

TEST_F(c_library, is_closed_after_close_and_in_a_forked_child) {
  expect_as_said("ends");
}

TEST_F(c_library, a_get_from_a_frozen_node_ends_by_its_deadline) {
  std::signal(SIGPIPE, SIG_IGN);
  put_asked_page(*client_of(2));
  auto program = cli::child_process::spawn({.arguments = words("deadline")});
  ASSERT_TRUE(program);
  auto line = program->read_line(milliseconds(20'000));
  ASSERT_TRUE(line) << line.error().message;
  ASSERT_EQ(*line, "connected");
  freeze(2);
  ASSERT_TRUE(program->write_line("g"));
  line = program->read_line(milliseconds(20'000));
  ASSERT_TRUE(line) << line.error().message;
  double begin = 0, end = 0;
  std::istringstream{*line} >> begin >> end;
  EXPECT_TRUE(took_at_most(milliseconds(250), at_ms(begin), at_ms(end))) << *line;
  EXPECT_EQ(program->wait(milliseconds(20'000)), 0) << *line;
}

TEST(embedded_c_library, has_a_node_of_its_own) {
  const auto done = run_program({PEERCACHE_C_PROGRAM, "embedded"});
  EXPECT_EQ(done.exit_code, 0) << done.output;
}

} // namespace peercache::real::c_library_test
