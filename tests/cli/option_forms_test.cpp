#include "cli/option_forms.hpp"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace peercache::cli::option_forms_test {

namespace {

enum class colour : std::uint8_t { red, green };
constexpr std::array<std::string_view, 2> colour_words{"red", "green"};

/// A command line with one option of each form (such as sizes and durations). Tests parse words
/// with it, and check values and errors.
struct forms {
  forms() {
    add_number(app, "-n,--number", number, {2, 200}, "How many");
    add_size(app, "--size", bytes, "How large");
    add_duration(app, "--time", time, std::chrono::milliseconds(10), std::chrono::seconds(60),
                 "How long");
    add_choice(app, "--colour", painted, colour_words, "Which");
  }

  std::string fault_of(std::vector<std::string> words) {
    // CLI11 expects the words in reverse order.
    std::reverse(words.begin(), words.end());
    try {
      app.parse(words);
      return "accepted";
    } catch (const CLI::ParseError& wrong) {
      return wrong.what();
    }
  }

  CLI::App app;
  std::uint8_t number = 7;
  std::uint64_t bytes = 16u << 10;
  std::chrono::milliseconds time{1500};
  colour painted = colour::red;
};

} // namespace

TEST(option_forms, values_arrive_in_their_variables) {
  forms given;
  EXPECT_EQ(given.fault_of({"-n", "200", "--size", "3MiB", "--time", "2s", "--colour", "green"}),
            "accepted");
  EXPECT_EQ(given.number, 200);
  EXPECT_EQ(given.bytes, 3u << 20);
  EXPECT_EQ(given.time, std::chrono::seconds(2));
  EXPECT_EQ(given.painted, colour::green);
}

TEST(option_forms, units_are_those_of_the_configuration) {
  forms given;
  EXPECT_EQ(given.fault_of({"--size", "500kB", "--time", "1m"}), "accepted");
  EXPECT_EQ(given.bytes, 500'000u) << "kB counts in 1000, KiB in 1024";
  EXPECT_EQ(given.time, std::chrono::minutes(1));
}

TEST(option_forms, what_is_not_given_keeps_its_default) {
  forms given;
  EXPECT_EQ(given.fault_of({}), "accepted");
  EXPECT_EQ(given.number, 7);
  EXPECT_EQ(given.bytes, 16u << 10);
  EXPECT_EQ(given.time, std::chrono::milliseconds(1500));
  EXPECT_EQ(given.painted, colour::red);
}

TEST(option_forms, of_a_repeated_option_the_last_one_wins) {
  forms given;
  EXPECT_EQ(given.fault_of({"-n", "3", "--number", "4"}), "accepted");
  EXPECT_EQ(given.number, 4);
}

TEST(option_forms, a_bad_value_is_told_with_the_options_name_and_what_is_allowed) {
  EXPECT_EQ(forms{}.fault_of({"-n", "1"}), "--number: 1 is out of bounds: 2 to 200 is allowed");
  EXPECT_EQ(forms{}.fault_of({"-n", "201"}), "--number: 201 is out of bounds: 2 to 200 is allowed");
  EXPECT_EQ(forms{}.fault_of({"-n", "99999999999999999999"}),
            "--number: 99999999999999999999 is out of bounds: 2 to 200 is allowed");
  for (const char* text : {"", "-3", "3x", "x", "0x3", " 3"})
    EXPECT_NE(forms{}.fault_of({std::string("--number=") + text}), "accepted") << text;
  EXPECT_EQ(forms{}.fault_of({"--time", "9ms"}),
            "--time: 9ms is out of bounds: 10ms to 60s is allowed");
  EXPECT_EQ(forms{}.fault_of({"--colour", "blue"}), "--colour: \"blue\" is none of red, green");
  EXPECT_EQ(forms{}.fault_of({"--size", "much"}).substr(0, 8), "--size: ");
}

TEST(option_forms, help_tells_form_bounds_and_default) {
  forms given;
  auto help = given.app.help();
  for (const char* part :
       {"--number NUMBER", "How many; 2 to 200 [default: 7]", "--size SIZE",
        "How large [default: 16KiB]", "--time DURATION", "How long; 10ms to 60s [default: 1500ms]",
        "--colour red|green", "Which [default: red]"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in " << help;
}

} // namespace peercache::cli::option_forms_test
