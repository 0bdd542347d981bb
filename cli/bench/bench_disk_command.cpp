#include "cli/bench/bench_disk.hpp"
#include "cli/bench/bench_disk_index.hpp"
#include "cli/bench/bench_outcome.hpp"
#include "cli/option_forms.hpp"
#include "cli/stand_in.hpp"
#include "common/limits.hpp"
#include "config/node_config.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

result<void> check_words(const std::string& flag, const std::vector<std::string>& given,
                         std::span<const std::string_view> known) {
  for (const auto& word : given)
    if (std::find(known.begin(), known.end(), word) == known.end())
      return {errc::invalid_argument, fmt::format("{}: there is no '{}'; there are {}", flag, word,
                                                  fmt::join(known, ", "))};
  return {};
}

result<void> check_options(const disk_bench_options& options) {
  constexpr std::string_view names[] = {"disk_write", "disk_promote"};
  if (auto known = check_words("--only", options.only, names); !known)
    return known;
  if (auto known =
          check_words("--store", options.stores, config::words_of<config::disk_store_mode>);
      !known)
    return known;
  for (auto bytes : options.sizes)
    if (bytes == 0 || bytes % storage::disk_block_bytes != 0 || bytes > limits::page_bytes_max ||
        bytes * options.depth > options.memory_bytes)
      return {errc::invalid_argument,
              fmt::format("--sizes: {} is no multiple of 4KiB, above 64MiB, or --depth of them "
                          "are more than --memory",
                          bytes)};
  return {};
}

exit_code bench_disk(const global_options& globals, const disk_bench_options& options) {
  if (auto valid = check_options(options); !valid)
    return fail(globals, valid.error());
  return print_outcome(globals, run_disk_bench(options), options.check);
}

void add_options(CLI::App& command, disk_bench_options& options) {
  command.add_option("--path", options.path, "Folder on the file system to measure [.]")
      ->type_name("FOLDER");
  command
      .add_option("--store", options.stores,
                  "Stores to measure: bucket, file_per_key, offset [default: all]")
      ->type_name("NAME")
      ->delimiter(',');
  command.add_option("--only", options.only, "disk_write or disk_promote [default: both]")
      ->type_name("NAME")
      ->delimiter(',');
  command.add_option("--sizes", options.sizes, "Page sizes [4KiB,256KiB,1MiB,4MiB]")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  add_number(command, "--rounds", options.rounds, {1, 1000}, "Rounds, of which the median counts");
  add_number(command, "--depth", options.depth, {1, 4096},
             "Requests on the device at a time, on both sides");
  add_size(command, "--memory", options.memory_bytes, "Pages that wait to be written, at most");
  add_size(command, "--round-bytes", options.round_bytes, "Moved by each side in one round");
  add_number(command, "--round-pages", options.round_pages, {1, 1u << 24},
             "Pages moved in one round, at most");
  add_number(command, "--rest", options.rest_s, {0, 600},
             "Seconds that the device rests before each side's round: one with a rate limit saves "
             "up credit");
  add_size(command, "--size", options.size_bytes, "As disk.size: far more than a round");
  add_size(command, "--bucket-size", options.bucket_bytes, "As disk.bucket_size");
  add_number(command, "--bucket-keys", options.bucket_keys, {1, 1'000'000}, "As disk.bucket_keys");
  command.add_flag("--fio-registers,!--no-fio-registers", options.fio_registers,
                   "fio registers its memory and files with the ring, as the tier does "
                   "[default: yes]");
  command.add_flag("--huge-pages,!--no-huge-pages", options.huge_pages,
                   "Memory of both sides in transparent huge pages, else shared in 4 KiB "
                   "[default: yes]");
  command.add_flag("--check", options.check, "End with 1 when a target is missed");
}

} // namespace

void add_disk_bench(command_line& line, CLI::App& bench) {
  auto* command =
      bench.add_subcommand("disk", "Pages to and from the disk tier beside fio on the same device");
  auto options = std::make_shared<disk_bench_options>();
  add_options(*command, *options);
  command->callback([&line, options] {
    line.action = [&line, options](const global_options& globals) {
      return open_bench_index == nullptr ? fail(globals, go_on_in_node(line.words))
                                         : bench_disk(globals, *options);
    };
  });
}

} // namespace peercache::cli
