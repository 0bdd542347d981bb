#include "cli/bench/bench_handoff.hpp"

#include "cli/bench/bench_outcome.hpp"
#include "cli/bench/bench_perftest.hpp"
#include "cli/bench/bench_rdma.hpp"
#include "cli/option_forms.hpp"
#include "common/log.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <unistd.h>

namespace peercache::cli {

namespace {

struct handoff_case {
  const char* name;
  handoff_shape shape;
  ratio_kind kind;
  double target;
  double verbs_target; ///< The target where pages travel over verbs.
};

constexpr std::uint64_t raw_server_bytes = 512u << 20;
/// About as many bytes as an offer of a room takes, or a request for pages.
constexpr std::uint32_t raw_request_bytes = 128;
/// Bytes of one READ of the limit: as many as our own largest READs have.
constexpr std::uint32_t limit_read_bytes = 1u << 20;
constexpr std::uint32_t limit_depth = 128;

struct handoff_bench_options {
  std::uint32_t rounds = 5;
  std::uint32_t calls = 300;        ///< Rooms of one page in one round.
  std::uint32_t prompt_pages = 128; ///< Pages of a prompt, each of 8 MiB.
  std::vector<std::string> only;
  bool verbs = false;
  std::uint32_t channels = 16; ///< Connections of decode to one prefill rank.
  handoff_devices devices;     ///< Names of the devices wanted; empty: the first usable ones.
  bool check = false;
};

handoff_shape prompt(std::uint32_t pages, std::uint32_t prefill_ranks, std::uint32_t decode_ranks) {
  handoff_shape shape;
  shape.room_pages = pages;
  shape.prefill_ranks = prefill_ranks;
  shape.decode_ranks = decode_ranks;
  return shape;
}

handoff_shape scattered_prompt(std::uint32_t pages) {
  auto shape = prompt(pages, 1, 1);
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

std::vector<handoff_case> all_cases(std::uint32_t pages) {
  using enum ratio_kind;
  return {{"handoff_page", one_page(), latency, 2.0, 1.5},
          {"handoff_rooms_64", rooms_of_a_mebibyte(), throughput, 0.85, 0.9},
          {"handoff_prompt", prompt(pages, 1, 1), throughput, 0.9, 0.97},
          {"handoff_prompt_scattered", scattered_prompt(pages), throughput, 0.85, 0.95},
          {"handoff_tp_2_1", prompt(pages, 2, 1), throughput, 0.7, 0.8},
          {"handoff_tp_1_2", prompt(pages, 1, 2), throughput, 0.7, 0.45}};
}

std::vector<std::span<std::byte>> pieces_of(std::span<std::byte> memory) {
  constexpr std::size_t piece = 1u << 20;
  std::vector<std::span<std::byte>> pieces;
  for (std::size_t at = 0; at < memory.size(); at += piece)
    pieces.push_back(memory.subspan(at, std::min(piece, memory.size() - at)));
  return pieces;
}

/// State that all measurements of one run share.
struct handoff_bench {
  const handoff_bench_options& options;
  /// The devices that pages travel over; empty when pages travel over TCP.
  std::optional<rdma_bench_ports> ports;
  std::uint16_t raw_port = 0;

  handoff_devices devices() const {
    return ports ? handoff_devices{ports->reader.device, ports->server.device} : handoff_devices{};
  }
  client::worker_options decode() const {
    auto made = handoff_worker_options(devices().decode);
    made.channels_per_peer_max = options.channels;
    return made;
  }
  std::uint32_t times(const handoff_case& what) const {
    constexpr std::uint64_t round_bytes = 512u << 20;
    const auto bytes = what.shape.room_bytes() * what.shape.rooms;
    if (what.kind == ratio_kind::latency)
      return options.calls;
    return ports ? 1 : static_cast<std::uint32_t>(std::max<std::uint64_t>(1, round_bytes / bytes));
  }
  std::vector<std::string> prefill_command(const handoff_case& what) const {
    return {
        own_folder() + "/peercache",          "handoff-prefill", what.name,        "--prompt-pages",
        std::to_string(options.prompt_pages), "--device",        devices().prefill};
  }
};

/// The limit over verbs: for throughput the bytes over one queue pair; for latency the time in
/// which an offer arrives and two READs, of the page and of the lease, have been answered one after
/// the other.
result<bench::round_sample> verbs_limit(const handoff_bench& on, const handoff_case& what,
                                        bench::round_sample round_trips) {
  const auto bytes = what.shape.room_bytes() * what.shape.rooms;
  perftest_run run{on.ports->reader, on.ports->server, limit_read_bytes,
                   static_cast<std::uint32_t>(std::max<std::uint64_t>(5, bytes / limit_read_bytes)),
                   limit_depth};
  if (what.kind == ratio_kind::throughput)
    return read_bandwidth(run);
  run.page_bytes = static_cast<std::uint32_t>(bytes);
  run.iterations = on.options.calls;
  auto reads = read_latency(run);
  if (!reads)
    return reads;
  const auto one_way_us = bench::median(round_trips.call_us) / 2;
  for (auto& us : reads->call_us)
    us = one_way_us + 2 * us;
  return reads;
}

/// The limit of a case: what this machine moves into the same memory without PeerCache.
result<bench::round_sample> limit_of(const handoff_bench& on, const handoff_case& what,
                                     bench::raw_client& raw,
                                     std::span<const std::span<std::byte>> destinations) {
  const auto bytes = static_cast<double>(what.shape.room_bytes() * what.shape.rooms);
  if (on.ports && what.kind == ratio_kind::throughput)
    return verbs_limit(on, what, {});
  auto sample = timed_calls(on.times(what), bytes,
                            [&] { return raw.exchange(raw_request_bytes, destinations); });
  return on.ports && sample ? verbs_limit(on, what, std::move(*sample)) : std::move(sample);
}

result<bench_row> measure_case(const handoff_bench& on, const handoff_case& what) {
  auto engines = handoff_engines::start(what.shape, on.decode(), on.prefill_command(what));
  if (!engines)
    return engines.error();
  auto raw = bench::raw_client::connect(on.raw_port);
  if (!raw)
    return raw.error();
  const auto destinations = pieces_of((*engines)->memory());
  bench_row row{.name = what.name,
                .page_bytes = what.shape.room_bytes(),
                .batch = what.shape.rooms,
                .kind = what.kind,
                .target = on.ports ? what.verbs_target : what.target};
  auto planned = plan_ns_per_piece(what.shape);
  if (!planned)
    return planned.error();
  row.plan_ns_per_piece = *planned;
  auto measured = measure(
      row, on.options.rounds,
      [&]() -> result<bench::round_sample> {
        std::ranges::fill((*engines)->memory(),
                          std::byte{0}); // Wiped, so that no round finds bytes of an earlier one.
        auto sample = (*engines)->hand_over(on.times(what));
        if (sample && !(*engines)->is_right())
          return error{errc::refused, "decode has other bytes than prefill"};
        return sample;
      },
      [&] { return limit_of(on, what, *raw, destinations); });
  if (!measured)
    return measured.error();
  return row;
}

result<std::vector<bench_row>> measure_all(const handoff_bench& on) {
  std::vector<bench_row> rows;
  const auto& only = on.options.only;
  for (const auto& what : all_cases(on.options.prompt_pages)) {
    if (!only.empty() && std::find(only.begin(), only.end(), what.name) == only.end())
      continue;
    fmt::print(stderr, "peercache: measuring {}\n", what.name);
    auto row = measure_case(on, what);
    if (!row)
      return error{row.error().code, std::string{what.name} + ": " + row.error().message};
    rows.push_back(std::move(*row));
  }
  return rows;
}

result<std::vector<bench_row>> run_handoff_bench(const handoff_bench_options& options) {
  handoff_bench on{options, std::nullopt};
  if (options.verbs) {
    rdma_bench_options wanted;
    wanted.device = options.devices.decode;
    wanted.server_device = options.devices.prefill;
    auto ports = choose_ports(wanted, rdma::verbs::list_ports());
    if (!ports)
      return ports.error();
    on.ports = std::move(*ports);
  }
  auto server = child_process::spawn({.arguments = {own_folder() + "/peercache", "raw-server",
                                                    "--memory", std::to_string(raw_server_bytes)}});
  if (!server)
    return server.error();
  auto port = raw_server_port(*server);
  if (!port)
    return port.error();
  on.raw_port = *port;
  return measure_all(on);
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& what : all_cases(1))
    names.emplace_back(what.name);
  return names;
}

CLI::Option* add_prompt_pages(CLI::App& command, std::uint32_t& pages) {
  return add_number(command, "--prompt-pages", pages, {1, 1024}, "Pages of a prompt, 8 MiB each");
}

void add_prefill(command_line& line) {
  auto* command =
      line.app.add_subcommand("handoff-prefill", "The prefill engine of `bench handoff`")
          ->group("");
  struct prefill_choice {
    std::string name, device;
    std::uint32_t pages = 1;
  };
  auto choice = std::make_shared<prefill_choice>();
  command->add_option("case", choice->name, "Measurement")
      ->required()
      ->check(CLI::IsMember(case_names()));
  command->add_option("--device", choice->device, "RDMA device that pages are read from [TCP]");
  add_prompt_pages(*command, choice->pages);
  command->callback([&line, choice] {
    line.action = [choice](const global_options&) {
      init_log("prefill", "warn", false);
      for (const auto& what : all_cases(choice->pages))
        if (choice->name == what.name)
          return run_handoff_prefill(what.shape, choice->device);
      return exit_code::usage;
    };
  });
}

} // namespace

void add_handoff_bench(command_line& line, CLI::App& bench) {
  add_prefill(line);
  auto* command = bench.add_subcommand(
      "handoff",
      "Prompts handed over between prefill and decode, two processes, beside one raw "
      "socket between two processes, or perftest's READs over one queue pair; every byte "
      "is compared after each round");
  auto options = std::make_shared<handoff_bench_options>();
  add_number(*command, "--rounds", options->rounds, {1, 1000},
             "Rounds, of which the median counts");
  add_number(*command, "--calls", options->calls, {1, 1000}, "Rooms of one page in one round");
  add_prompt_pages(*command, options->prompt_pages);
  add_number(*command, "--channels", options->channels, {1, 64},
             "Connections, or queue pairs, of decode to one prefill rank");
  command->add_flag("--verbs", options->verbs, "Pages travel over RDMA devices of this host");
  command->add_option("--device", options->devices.decode, "Decode's, with --verbs [first usable]");
  command->add_option("--server-device", options->devices.prefill,
                      "Prefill's, with --verbs [the next usable one, or decode's]");
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
