#include "cli/bench/bench_rdma.hpp"

#include "cli/bench/bench_perftest.hpp"
#include "cli/bench/bench_setup.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

constexpr double bandwidth_target = 0.97;
constexpr double latency_target = 1.2;

using port_report = rdma::verbs::port_report;

const port_report* usable_port(const std::vector<port_report>& ports, const std::string& name,
                               const port_report* but) {
  for (const auto& port : ports)
    if (port.usable && &port != but && (name.empty() || port.device == name))
      return &port;
  return nullptr;
}

error no_port(const std::string& name, const rdma::verbs::device_listing& found) {
  auto why = found.why_none;
  for (const auto& port : found.ports)
    if (!port.usable && (name.empty() || name == port.device))
      why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", port.device, port.why_not);
  return {errc::not_found,
          fmt::format("no RDMA device {}can be used{}{} (see `peercache doctor`)",
                      name.empty() ? "" : "'" + name + "' ", why.empty() ? "" : ": ", why)};
}

/// State that all measurements of one run of the bench share.
struct rdma_bench {
  const rdma_bench_options& options;
  rdma_bench_ports ports;
  rdma_page_plan plan;
  bench::big_memory memory;
  rdma_server_process server;
  std::unique_ptr<rdma_bench_reader> validating;
  std::unique_ptr<rdma_bench_reader> bare; ///< A reader that does not validate pages.
};

/// Runs `operation` and `limit` once per round and adds both samples to the row. The operation
/// comes first in even rounds, the limit in odd ones.
template <class Operation, class Limit>
result<void> take_turns(bench_row& row, std::uint32_t rounds, Operation&& operation,
                        Limit&& limit) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    const bool limit_first = round % 2 == 1;
    auto before = limit_first ? limit() : result<bench::round_sample>(bench::round_sample{});
    auto measured = operation();
    auto after = limit_first ? std::move(before) : limit();
    if (!measured)
      return measured.error();
    if (!after)
      return after.error();
    row.rounds.add(std::move(*measured), std::move(*after));
  }
  return {};
}

/// Reads some pages once before they are measured: connects, and shows that the right bytes arrive.
result<void> try_out(rdma_bench_reader& reader, const rdma_page_plan::run& run,
                     std::uint32_t count) {
  reader.prepare(run, 0, count);
  if (auto done = reader.read(); !done)
    return done;
  return reader.check_bytes();
}

perftest_run limit_of(const rdma_bench& on, const rdma_page_plan::run& run,
                      std::uint32_t iterations) {
  return {on.ports.reader, on.ports.server, run.page_bytes, std::max(iterations, 5u),
          on.options.depth};
}

double fences_per_batch(const rdma_bench_reader& reader, std::uint64_t before,
                        std::uint64_t batches) {
  return static_cast<double>(reader.counters().fences - before) / static_cast<double>(batches);
}

result<void> measure_bandwidth(rdma_bench& on, const rdma_page_plan::run& run,
                               std::vector<bench_row>& rows) {
  auto& reader = *on.validating;
  if (auto right = try_out(reader, run, run.pages); !right)
    return right;
  const auto batch_bytes = std::uint64_t{run.pages} * run.page_bytes;
  const auto batches = std::max<std::uint64_t>(1, on.options.round_bytes / batch_bytes);
  bench_row row{.name = "rdma_read",
                .page_bytes = run.page_bytes,
                .batch = run.pages,
                .target = bandwidth_target};
  const auto fences = reader.counters().fences.load();
  const auto ours = [&] {
    return timed_calls(batches, static_cast<double>(batch_bytes), [&] { return reader.read(); });
  };
  const auto limit = [&] {
    return read_bandwidth(limit_of(on, run, static_cast<std::uint32_t>(batches * run.pages)));
  };
  auto measured = take_turns(row, on.options.rounds, ours, limit);
  row.fences_per_batch = fences_per_batch(reader, fences, batches * on.options.rounds);
  rows.push_back(std::move(row));
  return measured;
}

result<void> measure_latency(rdma_bench& on, const rdma_page_plan::run& run, bool validated,
                             std::vector<bench_row>& rows) {
  auto& reader = validated ? *on.validating : *on.bare;
  if (auto right = try_out(reader, run, 1); !right)
    return right;
  bench_row row{.name = validated ? "rdma_read_validated" : "rdma_read",
                .page_bytes = run.page_bytes,
                .batch = 1,
                .kind = ratio_kind::latency};
  if (!validated)
    row.target = latency_target;
  const auto fences = reader.counters().fences.load();
  const auto ours = [&] {
    return timed_calls(on.options.calls, run.page_bytes, [&] { return reader.read(); });
  };
  const auto limit = [&] { return read_latency(limit_of(on, run, on.options.calls)); };
  auto measured = take_turns(row, on.options.rounds, ours, limit);
  row.fences_per_batch =
      fences_per_batch(reader, fences, std::uint64_t{on.options.calls} * on.options.rounds);
  rows.push_back(std::move(row));
  return measured;
}

result<std::unique_ptr<rdma_bench>> set_up(const rdma_bench_options& options) {
  auto ports = choose_ports(options, rdma::verbs::list_ports());
  if (!ports)
    return ports.error();
  auto plan = rdma_page_plan::make(options.sizes, options.batch_bytes);
  if (!plan)
    return plan.error();
  std::uint64_t bytes = 0;
  for (const auto& run : plan->runs())
    bytes = std::max(bytes, std::uint64_t{run.pages} * run.page_bytes);
  auto memory = bench::big_memory::map(bytes, bench::big_memory::kind::anonymous);
  if (!memory)
    return memory.error();
  auto server = rdma_server_process::start(options, ports->server.device);
  if (!server)
    return server.error();
  const auto open = [&](bool payload_only) {
    return rdma_bench_reader::open(options, ports->reader.device, server->port, memory->bytes(),
                                   payload_only);
  };
  auto validating = open(false);
  if (!validating)
    return validating.error();
  auto bare = open(true);
  if (!bare)
    return bare.error();
  return std::unique_ptr<rdma_bench>(new rdma_bench{options, std::move(*ports), std::move(*plan),
                                                    std::move(*memory), std::move(*server),
                                                    std::move(*validating), std::move(*bare)});
}

} // namespace

result<rdma_bench_ports> choose_ports(const rdma_bench_options& options,
                                      const rdma::verbs::device_listing& found) {
  const auto* reader = usable_port(found.ports, options.device, nullptr);
  if (reader == nullptr)
    return no_port(options.device, found);
  const auto* server = usable_port(found.ports, options.server_device, reader);
  if (server == nullptr)
    server = usable_port(found.ports, options.server_device, nullptr);
  if (server == nullptr)
    return no_port(options.server_device, found);
  return rdma_bench_ports{*reader, *server};
}

result<rdma_server_process> rdma_server_process::start(const rdma_bench_options& options,
                                                       const std::string& device) {
  std::string sizes;
  for (const auto size : options.sizes)
    sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  auto process = child_process::spawn(
      {.arguments = {own_folder() + "/peercache", "rdma-server", "--device", device, "--sizes",
                     sizes, "--batch-bytes", std::to_string(options.batch_bytes)}});
  if (!process)
    return process.error();
  const auto line = process->read_line(std::chrono::seconds(60));
  if (!line)
    return line.error();
  rdma_server_process made{std::move(*process)};
  constexpr std::string_view head = "port=";
  if (line->starts_with(head))
    std::from_chars(line->data() + head.size(), line->data() + line->size(), made.port);
  if (made.port == 0)
    return {errc::incompatible, "the RDMA server said: " + *line};
  return made;
}

result<std::vector<bench_row>> run_rdma_bench(const rdma_bench_options& options) {
  auto on = set_up(options);
  if (!on)
    return on.error();
  std::vector<bench_row> rows;
  for (const auto& run : (*on)->plan.runs()) {
    const bool one_page = run.page_bytes < rdma_bench_options::bandwidth_from_bytes;
    auto measured =
        one_page ? measure_latency(**on, run, false, rows) : measure_bandwidth(**on, run, rows);
    if (measured && one_page)
      measured = measure_latency(**on, run, true, rows);
    if (!measured)
      return measured.error();
  }
  return rows;
}

} // namespace peercache::cli
