#include "cli/cluster_health.hpp"
#include "cli/command.hpp"
#include "cli/confirm.hpp"
#include "cli/disk_status.hpp"
#include "cli/option_forms.hpp"
#include "metrics/metric_table.hpp"

#include <fmt/format.h>
#include <thread>

namespace peercache::cli {

using metrics::metric;

namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

struct disk_arguments {
  std::string node;             ///< The node's name; empty: the node at `--node`.
  std::uint64_t free_bytes = 0; ///< Bytes of disk.size that are to be free; 0: not given.
  bool all = false;             ///< Whether all pages go.
  confirmation confirm;
  milliseconds wait{3'600'000};
};

exit_code show_status(const global_options& globals, const disk_arguments& arguments) {
  auto admin = connect_node(globals, arguments.node);
  if (!admin)
    return fail(globals, admin.error());
  auto status = (*admin)->status();
  if (!status)
    return fail(globals, status.error());
  print(globals, disk_json(*status), disk_text(*status));
  return disk_exit_code(*status);
}

/// Asks for status reports until `enough` returns true for one. False when `at_most` passed before
/// such a report came.
template <class Enough>
result<bool> follow(client::admin_client& admin, milliseconds at_most, Enough&& enough) {
  const auto until = clock::now() + at_most;
  while (clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(report_pause_ms));
    auto status = admin.status();
    if (!status)
      return status.error();
    if (enough(*status))
      return true;
  }
  return false;
}

exit_code verify(const global_options& globals, const disk_arguments& arguments) {
  auto admin = connect_node(globals, arguments.node);
  if (!admin)
    return fail(globals, admin.error());
  auto before = (*admin)->status();
  if (!before)
    return fail(globals, before.error());
  if (before->lacks(link::node_parts::disk))
    return fail_for_silent(globals, *before, link::node_parts::disk);
  if (auto begun = (*admin)->verify_disk(); !begun)
    return fail(globals, begun.error());
  verify_progress progress(*before);
  progress_bar bar(stderr, "verifying", progress.total_bytes());
  auto done = follow(**admin, arguments.wait, [&](const client::node_status& now) {
    const bool ended = progress.take(now);
    bar.update(std::min(progress.read_bytes(), progress.total_bytes()));
    return ended;
  });
  bar.finish();
  if (!done)
    return fail(globals, done.error());
  print(globals,
        {{"node", before->self.name},
         {"complete", *done},
         {"read_bytes", progress.read_bytes()},
         {"checksum_failures", progress.failures()},
         {"read_errors", progress.unread()}},
        fmt::format("{}: {} read and found whole, {} pages were not and are dropped{}{}\n",
                    before->self.name, human_bytes(progress.read_bytes()),
                    human_count(progress.failures()),
                    progress.unread() == 0 ? ""
                                           : "; " + human_count(progress.unread()) +
                                                 " reads failed, of these pages nothing is known "
                                                 "(look at dmesg)",
                    *done ? "" : "; it goes on (peercache disk status)"));
  if (progress.failures() != 0 || progress.unread() != 0)
    return exit_code::failed;
  return *done ? exit_code::ok : exit_code::degraded;
}

exit_code evict_now(const global_options& globals, const disk_arguments& arguments,
                    client::admin_client& admin, const client::node_status& before) {
  const auto all = before.count(metric::disk_bytes_capacity);
  if (auto begun = admin.evict_disk(arguments.free_bytes == 0 ? all : arguments.free_bytes); !begun)
    return fail(globals, begun.error());
  evict_progress progress(before, arguments.free_bytes);
  auto state = evict_progress::state::going_on;
  auto done = follow(admin, arguments.wait, [&](const client::node_status& now) {
    state = progress.take(now);
    return state != evict_progress::state::going_on;
  });
  if (!done)
    return fail(globals, done.error());
  const bool reached = state == evict_progress::state::reached;
  print(globals,
        {{"node", before.self.name},
         {"reached", reached},
         {"free_bytes", progress.free_bytes()},
         {"evicted_pages", progress.evicted_pages()},
         {"pages_left", progress.pages_left()}},
        fmt::format("{}: {} pages evicted, {} left, {} of {} are free{}\n", before.self.name,
                    human_count(progress.evicted_pages()), human_count(progress.pages_left()),
                    human_bytes(progress.free_bytes()), human_bytes(all),
                    reached ? ""
                    : *done ? "; no more can be: the rest is the store's own, or came meanwhile"
                            : "; it goes on (peercache disk status)"));
  if (reached)
    return exit_code::ok;
  return *done ? exit_code::failed : exit_code::degraded;
}

/// Describes an evict for the person who has to confirm it. Errors: the arguments do not say how
/// much goes.
result<std::string> meaning_of(const disk_arguments& arguments, const std::string& node) {
  if (arguments.all == (arguments.free_bytes != 0))
    return {errc::invalid_argument, "disk evict takes --free SIZE, or --all for every page that is "
                                    "there"};
  if (arguments.all)
    return fmt::format("Every page on the disk of {} is dropped.", node);
  return fmt::format("Pages on the disk of {} are dropped until {} are free.", node,
                     human_bytes(arguments.free_bytes));
}

exit_code evict(const global_options& globals, const disk_arguments& arguments) {
  if (auto clear = meaning_of(arguments, ""); !clear)
    return fail(globals, clear.error());
  auto admin = connect_node(globals, arguments.node);
  if (!admin)
    return fail(globals, admin.error());
  auto before = (*admin)->status();
  if (!before)
    return fail(globals, before.error());
  if (before->lacks(link::node_parts::disk))
    return fail_for_silent(globals, *before, link::node_parts::disk);
  const auto wanted =
      confirmed(globals, arguments.confirm, *meaning_of(arguments, before->self.name));
  if (!wanted)
    return fail(globals, wanted.error());
  if (!*wanted)
    return exit_code::ok;
  return evict_now(globals, arguments, **admin, *before);
}

using disk_action = exit_code (*)(const global_options&, const disk_arguments&);

CLI::App* add_action(command_line& line, CLI::App& above, const std::string& name,
                     const std::string& meaning, disk_action action,
                     const std::shared_ptr<disk_arguments>& arguments) {
  auto* command = above.add_subcommand(name, meaning);
  command->add_option("NODE", arguments->node, "Its name [default: the node that is asked]");
  command->callback([&line, action, arguments] {
    line.action = [action, arguments](const global_options& globals) {
      return action(globals, *arguments);
    };
  });
  return command;
}

void add_wait(CLI::App& command, disk_arguments& arguments) {
  add_duration(command, "--wait", arguments.wait, milliseconds(1), milliseconds(86'400'000),
               "How long to wait for the end; the node goes on by itself");
}

} // namespace

void add_disk_command(command_line& line) {
  auto* command = line.app.add_subcommand("disk", "Look into a node's disk tier, and clear it");
  command->require_subcommand(1);
  const auto arguments = [] { return std::make_shared<disk_arguments>(); };
  add_action(line, *command, "status",
             "What it holds and did (1: there is none, 3: it is not well)", show_status,
             arguments());
  auto of_verify = arguments();
  add_wait(*add_action(
               line, *command, "verify",
               "Read all of it and compare checksums (1: pages were wrong, or could not be read; "
               "3: not all was read in time)",
               verify, of_verify),
           *of_verify);
  auto of_evict = arguments();
  auto* evicts = add_action(line, *command, "evict",
                            "Evict pages from it until enough is free (1: no more can be; 3: not "
                            "all of that in time)",
                            evict, of_evict);
  add_size(*evicts, "--free", of_evict->free_bytes, "Of disk.size, that are to be free");
  evicts->add_flag("--all", of_evict->all, "All pages that are there go");
  add_confirmation(*evicts, of_evict->confirm);
  add_wait(*evicts, *of_evict);
}

} // namespace peercache::cli
