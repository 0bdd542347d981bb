#include "cli/bench/bench_hicache.hpp"

#include "cli/bench/bench_outcome.hpp"
#include "cli/option_forms.hpp"
#include "cli/pool_room.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

using kind = hicache_work::kind;

constexpr double raw_target = 0.85;
/// Largest share of a copying call's time for which the call may hold Python's lock (GIL), because
/// other threads of the engine cannot run in that time.
constexpr double gil_held_max = 0.02;
/// Factor by which a round has more calls of `exists` than of get or set, because a call of
/// `exists` is short.
constexpr std::uint32_t exists_calls = 50;
constexpr std::uint32_t page_name_bytes = 56;

/// Tells on stderr how far the bench is: it takes minutes, and prints its rows only at the end.
void say(const std::string& what) {
  fmt::print(stderr, "peercache: {}\n", what);
}

class hicache_bench {
public:
  explicit hicache_bench(const hicache_bench_options& options) : options_(options) {}

  result<std::vector<bench_row>> run() {
    if (auto started = start(); !started)
      return started.error();
    for (const auto& what : options_.door->cases)
      if (options_.bench.wants(what.name))
        if (auto done = compare_with_client(what); !done)
          return error{done.error().code, std::string{what.name} + ": " + done.error().message};
    const auto* raw = options_.door->raw_case;
    if (raw && options_.ranks == 1 && options_.bench.wants(raw))
      if (auto done = compare_with_socket(raw); !done)
        return error{done.error().code, std::string{raw} + ": " + done.error().message};
    return std::move(rows_);
  }

private:
  result<void> start() {
    say("starting two nodes");
    auto setup = bench_setup::make(options_.bench);
    if (!setup)
      return setup.error();
    setup_ = std::move(*setup);
    say(fmt::format("starting {} in Python",
                    options_.ranks == 1 ? "a rank" : fmt::format("{} ranks", options_.ranks)));
    auto python = simulated_ranks::start(*setup_, options_);
    if (!python)
      return python.error();
    python_.emplace(std::move(*python));
    auto clients = client_ranks::connect(*setup_, options_);
    if (!clients)
      return clients.error();
    clients_ = std::move(*clients);
    say("storing the pages that are read later");
    for (auto place : {bench_place::here, bench_place::there}) {
      if (auto stored = python_->store(place); !stored)
        return stored;
      if (auto stored = clients_->store(place); !stored)
        return stored;
    }
    return {};
  }

  bench_row row_of(const char* name, bool counts_keys) const {
    bench_row row{.name = name, .batch = hicache_model::batch_pages};
    row.page_bytes = counts_keys ? 0 : options_.model.page_bytes();
    row.verify = !counts_keys;
    if (!counts_keys)
      row.gil_held_max = gil_held_max;
    return row;
  }

  void finish(bench_row row) {
    if (!python_->gil_held().empty())
      row.gil_held = bench::median(python_->gil_held());
    rows_.push_back(std::move(row));
  }

  result<void> compare_with_client(const engine_case& what) {
    say(std::string{"measuring "} + what.name);
    const bool counts_keys = what.what == kind::exists;
    const hicache_work work{what.what, what.from,
                            counts_keys ? options_.calls * exists_calls : options_.calls};
    auto row = row_of(what.name, counts_keys);
    row.target = what.target;
    python_->gil_held().clear();
    auto measured = measure(
        row, options_.bench.rounds, [&] { return python_->run(work); },
        [&] { return clients_->run(work); });
    row.callers = python_->callers();
    row.limit_callers = clients_->callers();
    finish(std::move(row));
    return measured;
  }

  /// Compares gets from the other host with one raw socket into the same kind of memory. Reader and
  /// sender have a CPU each.
  result<void> compare_with_socket(const char* name) {
    say(std::string{"measuring "} + name);
    auto raw = setup_->connect_raw();
    if (!raw)
      return raw.error();
    const auto& model = options_.model;
    page_walk targets(setup_->own_memory(), model.page_bytes(), hicache_model::batch_pages);
    auto row = row_of(name, false);
    row.target = raw_target;
    const auto exchange = [&] {
      return timed_calls(options_.calls, static_cast<double>(model.batch_bytes()), [&] {
        return raw->exchange(hicache_model::batch_pages * page_name_bytes, targets.next());
      });
    };
    const auto cpus = usable_cpus();
    setup_->pin(pinning::apart);
    if (options_.bench.pin && cpus.size() > 1)
      python_->pin({cpus[0]});
    python_->gil_held().clear();
    auto measured = measure(
        row, options_.bench.rounds,
        [&] {
          return python_->run({kind::get, bench_place::there, options_.calls});
        },
        exchange);
    setup_->pin(pinning::none);
    finish(std::move(row));
    return measured;
  }

  const hicache_bench_options& options_;
  std::unique_ptr<bench_setup> setup_;
  std::optional<simulated_ranks> python_;
  std::unique_ptr<client_ranks> clients_;
  std::vector<bench_row> rows_;
};

result<void> check_rows(const hicache_bench_options& options) {
  const auto& door = *options.door;
  for (const auto& name : options.bench.only) {
    const bool known = (door.raw_case && name == door.raw_case) ||
                       std::any_of(door.cases.begin(), door.cases.end(),
                                   [&](const auto& each) { return name == each.name; });
    if (!known)
      return {errc::invalid_argument, "--only: there is no measurement '" + name + "'"};
  }
  return {};
}

/// Sizes pools so that they hold the pages that the ranks and the C++ clients store at each place,
/// and as many pages again for sets.
void size_to_model(hicache_bench_options& options) {
  const auto batches = std::uint64_t{options.ranks} * options.model.batch_bytes();
  options.bench.memory_bytes = batches * 3;
  options.bench.pool_bytes = batches * hicache_stored_batches * 4;
}

exit_code bench_hicache(const global_options& globals, hicache_bench_options options) {
  size_to_model(options);
  if (auto known = check_rows(options); !known)
    return fail(globals, known.error());
  if (auto fits = check_pools(2, options.bench.pool_bytes, pool_room::of_machine()); !fits)
    return fail(globals, fits.error());
  return print_outcome(globals, run_hicache_bench(options), options.check);
}

} // namespace

result<std::vector<bench_row>> run_hicache_bench(const hicache_bench_options& options) {
  return hicache_bench{options}.run();
}

namespace {

/// The model of this name, with its pages in the form in which the engine of this door has them.
hicache_model model_for(const engine_door& door, const std::string& name) {
  const auto models = hicache_models();
  auto model = *std::find_if(models.begin(), models.end(),
                             [&](const auto& each) { return name == each.name; });
  if (door.is_one_piece) {
    model.heads *= model.halves;
    model.halves = 1;
  }
  return model;
}

void add_bench_of(const engine_door& door, command_line& line, CLI::App& bench) {
  auto* command = bench.add_subcommand(door.command, door.about);
  auto options = std::make_shared<hicache_bench_options>();
  options->door = &door;
  auto model = std::make_shared<std::string>(options->model.name);
  std::vector<std::string> names;
  for (const auto& each : hicache_models())
    names.emplace_back(each.name);
  command->add_option("--model", *model, "Whose pages of 16 tokens [qwen3-32b-tp4]")
      ->check(CLI::IsMember(names));
  if (!door.is_one_piece)
    add_number(*command, "--ranks", options->ranks, {1, 16}, "Ranks of the engine, a process each");
  add_number(*command, "--rounds", options->bench.rounds, {1, 1000},
             "Rounds, of which the median counts");
  add_number(*command, "--calls", options->calls, {1, 1'000'000}, "Batches in one round");
  command->add_option("--python", options->python, "Interpreter [/usr/bin/python3]")
      ->type_name("FILE");
  command->add_option("--only", options->bench.only, "Measurements, by their names [all]")
      ->type_name("NAME")
      ->delimiter(',');
  command
      ->add_option("--node-program", options->bench.node_program,
                   "Path of peercache-node [the one beside this program]")
      ->type_name("FILE");
  command->add_flag("--check", options->check, "End with 1 when a target is missed");
  command->callback([&line, options, model] {
    options->model = model_for(*options->door, *model);
    line.action = [options](const global_options& globals) {
      return bench_hicache(globals, *options);
    };
  });
}

} // namespace

void add_engine_benches(command_line& line, CLI::App& bench) {
  for (const auto& door : engine_doors())
    add_bench_of(door, line, bench);
}

} // namespace peercache::cli
