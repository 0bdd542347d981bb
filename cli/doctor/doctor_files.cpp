#include "cli/doctor/doctor_files.hpp"

#include "cli/doctor/check_ids.hpp"
#include "common/user_group.hpp"
#include "net/host_socket.hpp"
#include "net/socket.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

namespace fs = std::filesystem;

/// Why a node could not append to the file, which it makes where it is missing; empty: it could.
std::string why_not_appended(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd >= 0) {
    ::close(fd);
    return {};
  }
  if (errno != ENOENT)
    return std::strerror(errno);
  const auto folder = file.parent_path();
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? ""
                                                                             : std::strerror(errno);
}

check judge_group(const files_facts& facts) {
  const std::string name = "node.group";
  if (facts.group.empty())
    return {name, verdict::info, "not set: pool and socket are open to the node's own user alone",
            ""};
  if (facts.why_no_group.empty())
    return {name, verdict::ok, fmt::format("pool and socket are shared with `{}`", facts.group),
            ""};
  return {
      name, verdict::fail, facts.why_no_group + ": the node would not start",
      facts.group_known
          ? fmt::format("SupplementaryGroups={0} in the node's systemd unit, or usermod -aG {0} "
                        "USER for the node's user",
                        facts.group)
          : fmt::format("groupadd --system {}, or correct node.group", facts.group)};
}

check judge_socket(const files_facts& facts) {
  const std::string name = "Unix socket";
  if (facts.socket)
    return {name, verdict::ok, "clients of this host connect at " + *facts.socket, ""};
  return {
      name, facts.socket_needed ? verdict::fail : verdict::warn,
      facts.socket.error().message + (facts.socket_needed
                                          ? "; the node would not start"
                                          : "; clients of this host come by the control port"),
      "net.socket_folder names a folder of the node's user that nobody else may write to "
      "(install -d -m 700 -o USER FOLDER); RuntimeDirectory=peercache in its systemd unit makes "
      "one"};
}

check judge_log(const files_facts& facts) {
  const std::string name = "log";
  if (facts.log_file.empty())
    return {name, verdict::info, "log.file is not set: the log goes to stderr", ""};
  if (facts.why_no_log.empty())
    return {name, verdict::ok, facts.log_file + " can be written", ""};
  return {name, verdict::fail,
          fmt::format("{} cannot be opened: {}: the node would not start", facts.log_file,
                      facts.why_no_log),
          "log.file names a file in a folder that the node's user may write to; "
          "LogsDirectory=peercache in its systemd unit makes /var/log/peercache"};
}

} // namespace

files_facts gather_files_facts(const config::node_config& config, const fs::path& root) {
  files_facts facts;
  facts.group = config.node.group;
  const auto group = group_named(config.node.group);
  facts.group_known = static_cast<bool>(group);
  if (!group)
    facts.why_no_group = group.error().message;
  else if (*group)
    if (const auto given = may_share_with(**group); !given)
      facts.why_no_group = given.error().message;

  facts.socket_needed =
      config.tls.given() || !config.node.group.empty() || !config.net.socket_folder.empty();
  const auto bind = net::resolve_host(config.net.bind);
  net::host_socket_options options;
  options.folder = config.net.socket_folder;
  options.bind = bind ? *bind : config.net.bind;
  options.port = config.net.control_port;
  if (group)
    options.group = *group;
  facts.socket = net::host_socket::examine(options, root == "/" ? "" : root.string());

  facts.log_file = config.log.file;
  if (!facts.log_file.empty())
    facts.why_no_log = why_not_appended(root / fs::path(facts.log_file).relative_path());
  return facts;
}

check_group judge_files_of_node(const files_facts& facts) {
  return {"files",
          {with_id(check_ids::node_group, judge_group(facts)),
           with_id(check_ids::socket_folder, judge_socket(facts)),
           with_id(check_ids::log_file, judge_log(facts))}};
}

} // namespace peercache::cli
