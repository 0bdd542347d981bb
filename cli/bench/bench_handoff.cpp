#include "cli/bench/bench_handoff.hpp"

#include "cli/bench/bench_outcome.hpp"
#include "cli/option_forms.hpp"
#include "common/log.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

struct handoff_case {
  const char* name;
  handoff_shape shape;
  ratio_kind kind;
  double target;
};

constexpr std::uint64_t raw_server_bytes = 512u << 20;
/// About as many bytes as an offer of a room takes, or a request for pages.
constexpr std::uint32_t raw_request_bytes = 128;

/// The prompt: 128 pages of 64 tokens in 64 buffers, 1 GiB.
handoff_shape prompt(std::uint32_t prefill_ranks, std::uint32_t decode_ranks) {
  handoff_shape shape;
  shape.prefill_ranks = prefill_ranks;
  shape.decode_ranks = decode_ranks;
  return shape;
}

handoff_shape scattered_prompt() {
  auto shape = prompt(1, 1);
  shape.scattered = true;
  return shape;
}

handoff_shape rooms_of_a_mebibyte() {
  handoff_shape shape;
  shape.page_tokens = 8;
  shape.room_pages = 1;
  shape.rooms = 64;
  return shape;
}

handoff_shape one_page() {
  handoff_shape shape;
  shape.buffers = 2;
  shape.page_tokens = 1;
  shape.room_pages = 1;
  return shape;
}

std::vector<handoff_case> all_cases() {
  using enum ratio_kind;
  return {{"handoff_page", one_page(), latency, 2.0},
          {"handoff_rooms_64", rooms_of_a_mebibyte(), throughput, 0.85},
          {"handoff_prompt", prompt(1, 1), throughput, 0.9},
          {"handoff_prompt_scattered", scattered_prompt(), throughput, 0.85},
          {"handoff_tp_2_1", prompt(2, 1), throughput, 0.7},
          {"handoff_tp_1_2", prompt(1, 2), throughput, 0.7}};
}

struct handoff_bench_options {
  std::uint32_t rounds = 5;
  std::uint32_t calls = 300; ///< Rooms of one page in one round.
  std::vector<std::string> only;
  bool check = false;
};

std::vector<std::span<std::byte>> pieces_of(std::span<std::byte> memory) {
  constexpr std::size_t piece = 1u << 20;
  std::vector<std::span<std::byte>> pieces;
  for (std::size_t at = 0; at < memory.size(); at += piece)
    pieces.push_back(memory.subspan(at, std::min(piece, memory.size() - at)));
  return pieces;
}

result<bench_row> measure_case(const handoff_case& what, const handoff_bench_options& options,
                               std::uint16_t raw_port) {
  auto engines = handoff_engines::start(what.shape, what.name);
  if (!engines)
    return engines.error();
  auto raw = bench::raw_client::connect(raw_port);
  if (!raw)
    return raw.error();
  const auto bytes = what.shape.room_bytes() * what.shape.rooms;
  const auto times = what.kind == ratio_kind::latency
                         ? options.calls
                         : static_cast<std::uint32_t>(
                               std::max<std::uint64_t>(1, (std::uint64_t{1} << 30) / bytes / 2));
  const auto destinations = pieces_of((*engines)->memory());
  bench_row row{.name = what.name,
                .page_bytes = what.shape.room_bytes(),
                .batch = what.shape.rooms,
                .kind = what.kind,
                .target = what.target};
  auto measured = measure(
      row, options.rounds,
      [&]() -> result<bench::round_sample> {
        auto sample = (*engines)->hand_over(times);
        if (sample && !(*engines)->is_right())
          return error{errc::refused, "decode has other bytes than prefill"};
        return sample;
      },
      [&] {
        return timed_calls(times, static_cast<double>(bytes),
                           [&] { return raw->exchange(raw_request_bytes, destinations); });
      });
  if (!measured)
    return measured.error();
  return row;
}

result<std::vector<bench_row>> run_handoff_bench(const handoff_bench_options& options) {
  auto server = child_process::spawn({.arguments = {own_folder() + "/peercache", "raw-server",
                                                    "--memory", std::to_string(raw_server_bytes)}});
  if (!server)
    return server.error();
  auto port = raw_server_port(*server);
  if (!port)
    return port.error();
  std::vector<bench_row> rows;
  for (const auto& what : all_cases()) {
    if (!options.only.empty() &&
        std::find(options.only.begin(), options.only.end(), what.name) == options.only.end())
      continue;
    fmt::print(stderr, "peercache: measuring {}\n", what.name);
    auto row = measure_case(what, options, *port);
    if (!row)
      return error{row.error().code, std::string{what.name} + ": " + row.error().message};
    rows.push_back(std::move(*row));
  }
  return rows;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& what : all_cases())
    names.emplace_back(what.name);
  return names;
}

void add_prefill(command_line& line) {
  auto* command =
      line.app.add_subcommand("handoff-prefill", "The prefill engine of `bench handoff`")
          ->group("");
  auto name = std::make_shared<std::string>();
  command->add_option("case", *name, "Measurement")->required()->check(CLI::IsMember(case_names()));
  command->callback([&line, name] {
    line.action = [name](const global_options&) {
      init_log("prefill", "warn", false);
      for (const auto& what : all_cases())
        if (*name == what.name)
          return run_handoff_prefill(what.shape);
      return exit_code::usage;
    };
  });
}

} // namespace

void add_handoff_bench(command_line& line, CLI::App& bench) {
  add_prefill(line);
  auto* command = bench.add_subcommand(
      "handoff", "Prompts handed over between prefill and decode, two processes, beside one raw "
                 "socket between two processes; every byte is compared after each round");
  auto options = std::make_shared<handoff_bench_options>();
  add_number(*command, "--rounds", options->rounds, {1, 1000},
             "Rounds, of which the median counts");
  add_number(*command, "--calls", options->calls, {1, 1000}, "Rooms of one page in one round");
  command->add_option("--only", options->only, "Measurements, by their names [all]")
      ->type_name("NAME")
      ->delimiter(',')
      ->check(CLI::IsMember(case_names()));
  command->add_flag("--check", options->check, "End with 1 when a target is missed");
  command->callback([&line, options] {
    line.action = [options](const global_options& globals) {
      init_log("decode", "warn", false);
      return print_outcome(globals, run_handoff_bench(*options), options->check);
    };
  });
}

} // namespace peercache::cli
