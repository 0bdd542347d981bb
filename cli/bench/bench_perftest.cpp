#include "cli/bench/bench_perftest.hpp"

#include "cli/process.hpp"
#include "net/socket.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace peercache::cli {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds start_at_most{20'000};
constexpr milliseconds perftest_at_most{90'000};
constexpr milliseconds end_at_most{10'000};

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc{} && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

/// The words of a line as numbers; empty when one of the words is not a number.
std::vector<double> numbers(const std::string& line) {
  std::istringstream words(line);
  std::vector<double> all;
  for (std::string word; words >> word;) {
    const auto value = number(word);
    if (!value)
      return {};
    all.push_back(*value);
  }
  return all;
}

result<double> column(std::string_view output, std::uint32_t page_bytes, std::size_t which) {
  std::istringstream lines{std::string(output)};
  for (std::string line; std::getline(lines, line);) {
    const auto row = numbers(line);
    if (row.size() > which && row[0] == page_bytes && row[which] > 0)
      return row[which];
  }
  return {errc::incompatible,
          fmt::format("perftest printed no row for {} bytes; it said:\n{}", page_bytes, output)};
}

result<std::uint16_t> free_port() {
  auto listener = net::listen_on("127.0.0.1", 0, 1);
  if (!listener)
    return listener.error();
  return net::local_port(*listener);
}

/// Whether some process listens at the port. The kernel's table tells, and not a trial connection,
/// which perftest's server would take for its client.
bool listens(std::uint16_t port) {
  const auto wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream rows(table);
    for (std::string row; std::getline(rows, row);) {
      std::istringstream words(row);
      std::string slot, local, remote, state;
      words >> slot >> local >> remote >> state;
      if (state == "0A" && local.ends_with(wanted))
        return true;
    }
  }
  return false;
}

result<void> wait_until_it_listens(child_process& server, std::uint16_t port) {
  const auto until = bench::clock::now() + start_at_most;
  while (!listens(port)) {
    if (const auto status = server.wait(milliseconds(5)))
      return {errc::refused, fmt::format("perftest's server ended with {}", *status)};
    if (bench::clock::now() >= until)
      return {errc::timed_out, "perftest's server does not listen"};
  }
  return {};
}

result<std::string> output_of(child_process& client) {
  const auto until = bench::clock::now() + perftest_at_most;
  std::string all;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(until - bench::clock::now());
    auto line = client.read_line(std::max(left, milliseconds(0)));
    if (!line && line.error().code == errc::closed)
      break;
    if (!line)
      return line.error();
    all += *line + "\n";
  }
  const auto status = client.wait(end_at_most);
  if (status != 0)
    return {errc::refused,
            fmt::format("perftest's client ended with {}; it said:\n{}", status.value_or(-1), all)};
  return all;
}

result<child_process> start(const std::string& program, const perftest_run& run,
                            const rdma::verbs::port_report& end,
                            const std::vector<std::string>& more) {
  spawn_options options;
  options.arguments = {program};
  for (const auto& some : {perftest_options(run, end), more})
    options.arguments.insert(options.arguments.end(), some.begin(), some.end());
  return child_process::spawn(options);
}

result<std::string> run_both_ends(const std::string& name, const perftest_run& run,
                                  std::vector<std::string> more) {
  const auto program = find_program(name, "perftest");
  if (!program)
    return program.error();
  const auto port = free_port();
  if (!port)
    return port.error();
  more.insert(more.end(), {"-p", std::to_string(*port)});
  auto server = start(*program, run, run.server, more);
  if (!server)
    return server.error();
  if (const auto listening = wait_until_it_listens(*server, *port); !listening)
    return listening.error();
  more.push_back("127.0.0.1");
  auto client = start(*program, run, run.reader, more);
  if (!client)
    return client.error();
  auto said = output_of(*client);
  server->wait(end_at_most);
  return said;
}

/// A run may end before it began, with a rate of 0, since perftest counts processor cycles and
/// those of two processors may differ, as in some virtual machines. Such a run is repeated, up to
/// this many attempts.
constexpr int attempts_max = 3;

result<double> measured(const std::string& name, const perftest_run& run,
                        const std::vector<std::string>& more,
                        result<double> (*figure_in)(std::string_view, std::uint32_t)) {
  for (int attempt = 1;; ++attempt) {
    const auto said = run_both_ends(name, run, more);
    if (!said)
      return said.error();
    auto figure = figure_in(*said, run.page_bytes);
    if (figure || attempt == attempts_max)
      return figure;
  }
}

} // namespace

std::vector<std::string> perftest_options(const perftest_run& run,
                                          const rdma::verbs::port_report& end) {
  const auto outstanding = std::min(run.reader.can.initiator_depth, run.server.can.responder_depth);
  const auto mtu = std::min(run.reader.can.mtu_bytes, run.server.can.mtu_bytes);
  std::vector<std::string> made = {"-F",
                                   "-d",
                                   end.device,
                                   "-i",
                                   std::to_string(end.port),
                                   "-s",
                                   std::to_string(run.page_bytes),
                                   "-n",
                                   std::to_string(run.iterations),
                                   "-o",
                                   std::to_string(outstanding),
                                   "-m",
                                   std::to_string(mtu)};
  if (end.layer == rdma::verbs::link_layer::ethernet)
    made.insert(made.end(), {"-x", std::to_string(end.gid_index)});
  return made;
}

result<double> average_mib_per_second(std::string_view output, std::uint32_t page_bytes) {
  return column(output, page_bytes, 3);
}

result<double> typical_us(std::string_view output, std::uint32_t page_bytes) {
  return column(output, page_bytes, 4);
}

result<bench::round_sample> read_bandwidth(const perftest_run& run) {
  const auto rate = measured("ib_read_bw", run, {"-q", "1", "-t", std::to_string(run.depth)},
                             average_mib_per_second);
  if (!rate)
    return rate.error();
  bench::round_sample sample;
  sample.units = static_cast<double>(run.iterations) * run.page_bytes;
  sample.seconds = sample.units / (*rate * (1u << 20));
  return sample;
}

result<bench::round_sample> read_latency(const perftest_run& run) {
  const auto typical = measured("ib_read_lat", run, {}, typical_us);
  if (!typical)
    return typical.error();
  bench::round_sample sample;
  sample.units = run.page_bytes;
  sample.seconds = *typical / 1e6;
  sample.call_us = {*typical};
  return sample;
}

} // namespace peercache::cli
