#include "cli/command.hpp"
#include "cli/option_forms.hpp"
#include "net/tls_authority.hpp"

#include <chrono>
#include <fmt/format.h>
#include <memory>
#include <string>

namespace peercache::cli {

namespace {

constexpr std::uint64_t days_max = 3650;

struct ca_arguments {
  std::string folder = "ca"; ///< Folder of the CA.
  std::string name;          ///< Name of the member.
  std::string out = ".";     ///< Folder for the certificate and its key.
  std::uint64_t days = net::tls_authority::usual_lifetime / std::chrono::days(1);
};

exit_code init(const global_options& globals, const ca_arguments& arguments) {
  const auto made = net::tls_authority::make(arguments.folder, globals.cluster);
  if (!made)
    return fail(globals, made.error());
  print(globals, {{"cluster", made->cluster()}, {"ca", made->certificate()}},
        fmt::format("{}: the CA of the cluster `{}`; every node and client gets this file as "
                    "`tls.ca`\n{}/ca.key makes members: keep it away from all of them\n",
                    made->certificate(), made->cluster(), arguments.folder));
  return exit_code::ok;
}

exit_code issue(const global_options& globals, const ca_arguments& arguments, net::tls_role role) {
  const auto authority = net::tls_authority::open(arguments.folder);
  if (!authority)
    return fail(globals, authority.error());
  const auto made =
      authority->issue(role, arguments.name, arguments.out, std::chrono::days(arguments.days));
  if (!made)
    return fail(globals, made.error());
  print(globals,
        {{"uri", made->uri},
         {"cert", made->certificate},
         {"key", made->key},
         {"days", arguments.days}},
        fmt::format("{} for {} days: `tls.cert` is {}, `tls.key` is {}\n", made->uri,
                    arguments.days, made->certificate, made->key));
  return exit_code::ok;
}

void add_issue(command_line& line, CLI::App& above, net::tls_role role, const char* meaning) {
  auto arguments = std::make_shared<ca_arguments>();
  auto* command = above.add_subcommand(std::string(word_of(role)), meaning);
  command->add_option("NAME", arguments->name, "Name in the certificate, and of its files")
      ->required();
  command->add_option("--ca", arguments->folder, "Folder of the CA [default: ca]")
      ->type_name("FOLDER");
  command->add_option("--out", arguments->out, "Folder for NAME.crt and NAME.key [default: .]")
      ->type_name("FOLDER");
  add_number(*command, "--days", arguments->days, {1, days_max},
             "How long the certificate is valid");
  command->callback([&line, arguments, role] {
    line.action = [arguments, role](const global_options& globals) {
      return issue(globals, *arguments, role);
    };
  });
}

} // namespace

void add_ca_command(command_line& line) {
  auto* command = line.app.add_subcommand("ca", "Certificates of a cluster with TLS");
  command->require_subcommand(1);
  auto arguments = std::make_shared<ca_arguments>();
  auto* first = command->add_subcommand("init", "Make the CA of a cluster (--cluster)");
  first->add_option("FOLDER", arguments->folder, "Folder of the CA, which is made")->required();
  first->callback([&line, arguments] {
    line.action = [arguments](const global_options& globals) { return init(globals, *arguments); };
  });
  auto* next = command->add_subcommand("issue", "Make a member's certificate and its key");
  next->require_subcommand(1);
  add_issue(line, *next, net::tls_role::node, "For a node; serves its host's clients, too");
  add_issue(line, *next, net::tls_role::operating, "For the command line, about nodes of any host");
  add_issue(line, *next, net::tls_role::client,
            "For engines, and the command line on a node's host");
}

} // namespace peercache::cli
