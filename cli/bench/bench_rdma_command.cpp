#include "cli/bench/bench_outcome.hpp"
#include "cli/bench/bench_rdma.hpp"
#include "cli/option_forms.hpp"

namespace peercache::cli {

namespace {

void add_pages(CLI::App& command, rdma_bench_options& options) {
  command.add_option("--sizes", options.sizes, "Page sizes [4KiB,64KiB,1MiB]")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  add_size(command, "--batch-bytes", options.batch_bytes, "Of one read call");
}

exit_code bench_rdma(const global_options& globals, const rdma_bench_options& options) {
  return print_outcome(globals, run_rdma_bench(options), options.check);
}

void add_server(command_line& line) {
  auto* command =
      line.app.add_subcommand("rdma-server", "The other end of `bench rdma`")->group("");
  auto options = std::make_shared<rdma_bench_options>();
  command->add_option("--device", options->server_device, "Device to serve on")->required();
  add_pages(*command, *options);
  command->callback([&line, options] {
    line.action = [options](const global_options&) {
      return serve_rdma_bench(options->server_device, options->sizes, options->batch_bytes);
    };
  });
}

} // namespace

void add_rdma_bench(command_line& line, CLI::App& bench) {
  add_server(line);
  auto* command = bench.add_subcommand(
      "rdma", "READs over a pair of RDMA devices of this host beside ib_read_bw and ib_read_lat");
  auto options = std::make_shared<rdma_bench_options>();
  command->add_option("--device", options->device, "The reader's [first usable]");
  command->add_option("--server-device", options->server_device,
                      "The server's [the next usable one, or the reader's]");
  add_pages(*command, *options);
  add_number(*command, "--rounds", options->rounds, {1, 1000},
             "Rounds, of which the median counts");
  add_number(*command, "--depth", options->depth, {2, 8192},
             "Work requests of the queue pair, on both sides");
  add_number(*command, "--calls", options->calls, {5, 1'000'000},
             "Calls of a latency measurement in one round");
  add_size(*command, "--round-bytes", options->round_bytes, "Read in one round of a bandwidth");
  command->add_flag("--check", options->check, "End with 1 when a target is missed");
  command->callback([&line, options] {
    line.action = [options](const global_options& globals) {
      return bench_rdma(globals, *options);
    };
  });
}

} // namespace peercache::cli
