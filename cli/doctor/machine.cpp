#include "cli/doctor/machine.hpp"

#include "cli/doctor/doctor_disk.hpp"
#include "cli/doctor/doctor_files.hpp"
#include "cli/doctor/doctor_host.hpp"
#include "cli/doctor/doctor_identity.hpp"
#include "cli/doctor/doctor_ports.hpp"
#include "cli/doctor/doctor_rdma.hpp"
#include "cli/doctor/doctor_seeds.hpp"
#include "cli/doctor/probe.hpp"

#include <fmt/format.h>

namespace peercache::cli {

std::vector<check_group> examine_machine(const config::node_config& config) {
  std::vector<probe> all{
      {"host", "this machine's limits", "dmesg says what hangs",
       [&config] { return judge_host(gather_host_facts(config)).checks; }},
      {"identity", "the files of tls.*", "dmesg says what hangs",
       [&config] { return std::vector{judge_identity(config, gather_identity(config))}; }},
      {"identity", "net.advertise", "look whether DNS answers",
       [&config] { return std::vector{look_at_advertise(config)}; }},
      {"files", "node.group, net.socket_folder and log.file", "dmesg says what hangs",
       [&config] { return judge_files_of_node(gather_files_facts(config)).checks; }},
      {"ports", "the node's ports", "dmesg says what hangs",
       [&config] { return judge_ports(gather_ports_facts(config)).checks; }}};
  for (const auto& seed : config.discovery.seeds)
    all.push_back({"seeds", fmt::format("{}:{}", seed.host, seed.port),
                   "look whether DNS answers, and whether the node there hangs", [&config, &seed] {
                     return std::vector{
                         judge_seed(gather_seed_facts(config, seed), PEERCACHE_VERSION)};
                   }});
  all.push_back({"rdma", "the RDMA devices", "dmesg says which driver hangs",
                 [&config] { return judge_rdma(gather_rdma_facts(config)).checks; }});
  all.push_back({"disk", config.disk.path,
                 "dmesg says what the device complains of; a frozen file system: fsfreeze -u; or "
                 "another disk.path",
                 [&config] { return judge_disk(gather_disk_facts(config)).checks; }});
  return look_at_all(all);
}

} // namespace peercache::cli
