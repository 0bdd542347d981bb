// Tests of what `peercache doctor` says of a machine or a configuration with which a node would not
// start, or would not find its cluster.

#include "fault_ring.hpp"

#include "cli/doctor/check_ids.hpp"
#include "storage/disk/folder_claim.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <unistd.h>

namespace peercache::real::doctor_faults_test {
namespace {

namespace check_ids = cli::check_ids;

/// Exit status of a staging program when this machine does not allow what it stages.
constexpr int not_staged = 77;

class doctor_faults : public fault_ring {
protected:
  /// Runs `peercache doctor` with these flags by the program and arguments `stage`, which executes
  /// the rest of its command line.
  finished_program doctor(std::vector<std::string> stage, const std::vector<std::string>& flags) {
    auto line = std::move(stage);
    line.insert(line.end(),
                {PEERCACHE_CLI_DIR "/peercache", "doctor", "-o", "json", "--node-name", "node-1"});
    line.insert(line.end(), flags.begin(), flags.end());
    return run_program(std::move(line), milliseconds(15'000));
  }

  /// Expects that doctor's check `id` warns or fails, that its finding and advice have these words,
  /// and that the exit status shows a warning or failure.
  void expect_check(const finished_program& done, const std::string& id,
                    const std::vector<std::string>& words) {
    expect_one_of(done, {id}, words);
  }
  /// Expects a check of one of these ids, for a fault that may be named in several ways.
  void expect_one_of(const finished_program& done, const std::set<std::string>& ids,
                     const std::vector<std::string>& words) {
    if (done.exit_code == not_staged)
      GTEST_SKIP() << "cannot be staged here: " << done.output;
    EXPECT_EQ(done.exit_code, 3) << done.output;
    const auto said = done.json();
    ASSERT_TRUE(said.contains("groups")) << done.output;
    for (const auto& group : said["groups"])
      for (const auto& check : group["checks"])
        if (ids.contains(check["id"]) &&
            (check["verdict"] == "fail" || check["verdict"] == "warn")) {
          const auto text =
              fmt::format("{} {} {}", check["name"].get<std::string>(),
                          check["found"].get<std::string>(), check["fix"].get<std::string>());
          for (const auto& word : words)
            EXPECT_NE(text.find(word), std::string::npos) << word << " is not in " << text;
          return;
        }
    ADD_FAILURE() << "no " << *ids.begin() << " in " << done.output;
  }

  void start_folder() {
    auto folder = cli::run_folder::make("peercache-doctor");
    ASSERT_TRUE(folder);
    folder_ = std::make_unique<cli::run_folder>(std::move(*folder));
  }
  std::string in_folder(const std::string& name) const { return (folder_->path() / name).string(); }
};

/// A fault of the machine: how it is staged around the command, and what the command must say.
struct machine_row {
  std::string name;
  std::vector<std::string> stage;
  std::vector<std::string> flags;
  const char* id;
  std::vector<std::string> words;
};

/// Returns the start of a command line: a shell that runs a script, to which the rest of the line
/// is `"$@"`.
std::vector<std::string> shell(const std::string& script) {
  return {"/bin/sh", "-c", script, "sh"};
}
/// Returns the command of a shell in a mount namespace of its own: the shell runs the script, and
/// then the command that follows. When the script fails, the shell exits with 77.
std::vector<std::string> with_mounts(const std::string& script) {
  return {"/usr/bin/unshare",
          "-m",
          "/bin/sh",
          "-c",
          "{ " + script + "; } || exit 77; exec \"$@\"",
          "sh"};
}

/// Returns a part of a script: a process that runs `undo` once the shell has ended, however it
/// ends, or after 20 s. No signal to the shell's process group reaches this process.
std::string whatever_happens(const std::string& undo) {
  return "setsid sh -c 'n=0; while kill -0 $0 2>/dev/null && [ $n -lt 100 ]; do n=$((n+1)); sleep "
         "0.2; done; " +
         undo + "' $$ </dev/null >/dev/null 2>&1 &\n";
}

/// A script that runs its arguments in a cgroup (version 1 or 2) with a memory limit of 48 MiB.
const std::string in_small_cgroup =
    R"(
if [ -d /sys/fs/cgroup/memory ]; then
  group=/sys/fs/cgroup/memory/peercache-doctor-$$; limit=memory.limit_in_bytes
else
  group=/sys/fs/cgroup/peercache-doctor-$$; limit=memory.max
fi
mkdir $group 2>/dev/null || exit 77
export group
)" +
    whatever_happens("n=0; while [ -d $group ] && ! rmdir $group && [ $n -lt 50 ]; do "
                     "kill -9 $(cat $group/cgroup.procs); n=$((n+1)); sleep 0.1; done") +
    R"(
( echo 50331648 > $group/$limit && sh -c 'echo $PPID' > $group/cgroup.procs ) 2>/dev/null || exit 77
( sh -c 'echo $PPID' > $group/cgroup.procs && exec "$@" )
)";

const std::vector<machine_row> machine_rows{
    {"dev_shm_is_too_small",
     with_mounts("mount -t tmpfs -o size=16m tmpfs /dev/shm"),
     {"--pool-size", "64MiB"},
     check_ids::shared_memory,
     {"16.0 MiB", "remount,size=", "--shm-size="}},
    {"dev_shm_is_read_only",
     with_mounts("mount -t tmpfs -o size=1g,ro tmpfs /dev/shm"),
     {"--pool-size", "64MiB"},
     check_ids::shared_memory,
     {"Read-only", "remount,rw"}},
    {"the_certificate_is_not_there",
     {},
     {"--tls-cert", "/nowhere/node.pem", "--tls-key", "/nowhere/node.key", "--tls-ca",
      "/nowhere/ca.pem"},
     check_ids::tls,
     {"/nowhere/", "peercache ca issue node node-1"}},
    {"the_pool_is_larger_than_memory",
     {},
     {"--pool-size", "900GiB"},
     check_ids::memory,
     {"more than the machine has", "pool.size"}},
    {"the_cgroup_is_smaller_than_the_pool",
     shell(in_small_cgroup),
     {"--pool-size", "64MiB"},
     check_ids::cgroup_memory,
     {"48.0 MiB", "MemoryMax="}},
    {"memlock_is_small",
     {"/usr/bin/setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "/usr/bin/prlimit",
      "--memlock=65536:65536"},
     {"--pool-size", "64MiB", "--data-plane", "verbs"},
     check_ids::memlock,
     {"64.0 KiB", "LimitMEMLOCK=infinity"}},
    {"the_group_is_not_there",
     {},
     {"--node-group", "no-such-group"},
     check_ids::node_group,
     {"no group `no-such-group`", "groupadd"}},
    {"the_user_is_not_in_the_group",
     {"/usr/bin/setpriv", "--bounding-set=-chown", "--inh-caps=-chown", "--clear-groups"},
     {"--node-group", "54321"},
     check_ids::node_group,
     {"has to be in the group 54321", "usermod -aG 54321"}},
    {"the_socket_folder_is_open_to_all",
     {},
     {"--net-socket-folder", "/tmp"},
     check_ids::socket_folder,
     {"/tmp", "other users may write to it", "net.socket_folder"}},
    {"the_log_has_no_folder",
     {},
     {"--log-file", "/nowhere/node.log"},
     check_ids::log_file,
     {"/nowhere/node.log", "No such file", "log.file"}},
    {"no_huge_pages_are_reserved",
     {},
     {"--pool-size", "900GiB", "--pool-huge-pages", "2MiB"},
     check_ids::huge_pages,
     {"vm.nr_hugepages="}},
    {"no_hugetlbfs_is_mounted",
     with_mounts("[ ! -d /dev/hugepages ] || mount -t tmpfs tmpfs /dev/hugepages"),
     {"--pool-size", "64MiB", "--pool-huge-pages", "2MiB"},
     check_ids::hugetlbfs,
     {"mount -t hugetlbfs"}},
    {"few_files_may_be_open",
     {"/usr/bin/prlimit", "--nofile=48:48"},
     {"--pool-size", "64MiB"},
     check_ids::open_files,
     {"48", "LimitNOFILE="}},
    {"the_only_seed_is_the_node_itself",
     {},
     {"--insecure-cluster", "--discovery-seeds", "127.0.0.1:31998"},
     check_ids::seed,
     {"founds a cluster of one", "discovery.seeds"}},
    {"the_disk_folder_takes_no_files",
     {},
     {"--disk-path", "/proc/nothing"},
     check_ids::disk_folder,
     {"/proc/nothing", "cannot be written", "chown"}},
    {"the_disk_is_full",
     with_mounts("mount -t tmpfs -o size=64m tmpfs /mnt"),
     {"--disk-path", "/mnt/full", "--disk-size", "10GiB"},
     check_ids::disk_space,
     {"would be read-only", "disk.size ="}},
};

class machine_faults : public doctor_faults, public testing::WithParamInterface<machine_row> {};

} // namespace

TEST_P(machine_faults, are_named_with_cause_and_fix) {
  if (!GetParam().stage.empty() && ::geteuid() != 0)
    GTEST_SKIP() << "only root can stage it";
  expect_check(doctor(GetParam().stage, GetParam().flags), GetParam().id, GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(of, machine_faults, testing::ValuesIn(machine_rows),
                         [](const auto& info) { return info.param.name; });

/// The seed's name cannot be resolved. A resolver that does not answer would take longer than the
/// doctor's deadline.
TEST_F(doctor_faults, a_seed_without_an_address_is_named) {
  expect_one_of(
      doctor({}, {"--insecure-cluster", "--discovery-seeds", "no-such-host.invalid:31998"}),
      {check_ids::seed, check_ids::no_answer}, {"no-such-host.invalid", "DNS"});
}

TEST_F(doctor_faults, a_port_that_another_process_has_is_named_with_its_owner) {
  for (const char* option : {"control", "data", "http", "lookup"}) {
    const auto listener = net::listen_on("127.0.0.1", 0, 1);
    ASSERT_TRUE(listener);
    const auto port = std::to_string(net::local_port(*listener));
    expect_check(doctor({}, {"--net-" + std::string(option) + "-port", port}), check_ids::port,
                 {"127.0.0.1:" + port, "process " + std::to_string(::getpid()),
                  "net." + std::string(option) + "_port"});
  }
}

TEST_F(doctor_faults, seeds_that_are_no_nodes_of_the_cluster_are_named) {
  start({.count = 1});
  if (HasFatalFailure())
    return;
  const auto& ports = node(0).ports();
  const auto seed = [&](const std::string& where, std::vector<std::string> words) {
    expect_check(
        doctor({}, {"--insecure-cluster", "--cluster-name", cluster(), "--discovery-seeds", where}),
        check_ids::seed, words);
  };
  seed(at_port(free_port()), {"Connection refused", "discovery.seeds"});
  seed(at_port(ports.http_port), {"net.control_port"});
  seed(at_port(ports.data_port), {"net.control_port"});
  expect_check(doctor({}, {"--insecure-cluster", "--cluster-name", "elsewhere", "--discovery-seeds",
                           address(0)}),
               check_ids::seed, {"'elsewhere'", "cluster.name"});
  // A running node already has the name that this configuration gives to its node.
  expect_check(doctor({}, {"--insecure-cluster", "--cluster-name", cluster(), "--discovery-seeds",
                           address(0)}),
               check_ids::seed, {"a node of this name lives at " + address(0), "node.name"});
}

TEST_F(doctor_faults, a_disk_folder_of_another_process_or_node_is_named) {
  start_folder();
  const auto flags = [&](const std::string& cluster) {
    return std::vector<std::string>{"--cluster-name", cluster, "--disk-path", in_folder("disk")};
  };
  {
    const auto claim =
        storage::folder_claim::take(in_folder("disk/node-1"), {"cluster", "another"});
    ASSERT_TRUE(claim);
    expect_check(
        doctor({}, flags("cluster")), check_ids::disk_owner,
        {"in use by node 'another'", "process " + std::to_string(::getpid()), "disk.path"});
  }
  expect_check(doctor({}, flags("cluster")), check_ids::disk_owner,
               {"holds the pages of node 'another'", "disk.path"});
}

/// The disk is a frozen file system, which completes no write until it is thawed.
TEST_F(doctor_faults, a_disk_that_hangs_is_named_within_the_deadline) {
  start_folder();
  const auto at = in_folder("disk");
  const auto image = in_folder("image");
  if (::geteuid() != 0)
    GTEST_SKIP() << "only root can stage it";
  const auto thaw =
      "fsfreeze -u \"$at\"; umount \"$at\" || umount -l \"$at\"; rm -rf \"${at%/disk}\"";
  const auto stage = shell(
      "export at='" + at + "' image='" + image + "'\n" +
      "mkdir -p $at && truncate -s 32M $image && mkfs.ext4 -q $image && mount -o loop $image $at "
      "|| exit 77\n" +
      whatever_happens(thaw) + "fsfreeze -f $at || exit 77\n\"$@\"\ncode=$?\nfsfreeze -u $at\n" +
      "n=0; while ! umount $at 2>/dev/null && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.1; done\n"
      "exit $code");
  const auto begin = clock::now();
  const auto done = doctor(stage, {"--disk-path", at});
  expect_check(done, check_ids::no_answer, {"no answer within 3 s", "fsfreeze -u"});
  if (!IsSkipped()) {
    EXPECT_TRUE(took_at_most(milliseconds(15'000), begin));
  }
}

TEST_F(doctor_faults, what_the_running_node_holds_is_no_fault) {
  start({.count = 1, .disk = true});
  if (HasFatalFailure())
    return;
  const auto& ports = node(0).ports();
  const auto done = doctor(
      {}, {"--insecure-cluster", "--cluster-name", cluster(), "--net-control-port",
           std::to_string(ports.control_port), "--net-data-port", std::to_string(ports.data_port),
           "--net-http-port", std::to_string(ports.http_port), "--disk-path",
           (folder_->path() / "node-1" / "disk").string(), "--discovery-seeds",
           address(0) + "," + at_port(free_port()), "--data-plane", "tcp", "--pool-size", "16MiB"});
  const auto said = done.json();
  ASSERT_TRUE(said.contains("groups")) << done.output;
  for (const auto& group : said["groups"])
    for (const auto& check : group["checks"])
      EXPECT_NE(check["verdict"], "fail") << check.dump();
}

/// On mistakes that the check of the configuration finds, the command exits with 2 and names the
/// option.
TEST_F(doctor_faults, a_configuration_that_makes_no_sense_is_said_with_the_option) {
  start_folder();
  const std::pair<std::string, std::string> files[] = {
      {"[pool]\nsise = \"1GiB\"\n", "pool.sise"},
      {"[pool]\nsize = \"much\"\n", "pool.size"},
      {"[net]\nbind = \"0.0.0.0\"\n", "insecure_cluster"},
  };
  for (const auto& [text, word] : files) {
    std::ofstream(in_folder("node.toml")) << text;
    const auto done = doctor({}, {"--config", in_folder("node.toml")});
    EXPECT_EQ(done.exit_code, 2) << done.output;
    EXPECT_NE(done.output.find(word), std::string::npos) << done.output;
  }
}

} // namespace peercache::real::doctor_faults_test
