#include "bench/sample_statistics.hpp"
#include "cli/command.hpp"
#include "cli/option_forms.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace peercache::cli {

namespace {

exit_code ping(const global_options& globals, std::uint32_t count) {
  auto admin = connect_admin(globals);
  if (!admin)
    return fail(globals, admin.error());
  std::vector<double> round_trips_us;
  std::string name, address;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto begin = bench::clock::now();
    auto status = (*admin)->status();
    if (!status)
      return fail(globals, status.error());
    round_trips_us.push_back(bench::seconds_between(begin, bench::clock::now()) * 1e6);
    name = status->self.name;
    address = fmt::format("{}:{}", status->self.host, status->self.control_port);
  }
  auto [least, most] = std::minmax_element(round_trips_us.begin(), round_trips_us.end());
  auto middle = bench::median(round_trips_us);
  print(globals,
        {{"node", name},
         {"address", address},
         {"count", count},
         {"round_trip_us_min", *least},
         {"round_trip_us_p50", middle},
         {"round_trip_us_max", *most}},
        fmt::format("{} at {}: {} answers, round trip {:.0f} us (min {:.0f}, max {:.0f})\n", name,
                    address, count, middle, *least, *most));
  return exit_code::ok;
}

} // namespace

void add_ping_command(command_line& line) {
  auto* command = line.app.add_subcommand("ping", "Ask a node for a sign of life, and time it");
  auto count = std::make_shared<std::uint32_t>(5);
  add_number(*command, "-c,--count", *count, {1, 100'000}, "Questions to ask");
  command->callback([&line, count] {
    line.action = [count](const global_options& globals) { return ping(globals, *count); };
  });
}

} // namespace peercache::cli
