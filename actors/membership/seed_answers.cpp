#include "actors/membership/seed_answers.hpp"

#include "common/fault_ids.hpp"
#include "common/printable.hpp"
#include "link/caf_fault.hpp"
#include "link/connector_actor.hpp"

#include <algorithm>
#include <caf/sec.hpp>
#include <string_view>

namespace peercache::actors {
namespace {

const char* id_of(const caf::error& why, const error& fault) {
  if (fault.code == errc::incompatible)
    return why == caf::sec::incompatible_versions ? fault_ids::seed_speaks_other
                                                  : fault_ids::seed_other_cluster;
  if (fault.code == errc::timed_out || fault.code == errc::closed)
    return fault_ids::seed_silent;
  if (std::string_view(fault.message).starts_with(link::no_tls_with_it))
    return fault_ids::seed_tls;
  return why == caf::sec::cannot_connect_to_node ? fault_ids::seed_unreachable
                                                 : fault_ids::seed_no_control_port;
}

const char* fix_of(std::string_view id) {
  if (id == fault_ids::seed_unreachable)
    return "start the node there, correct discovery.seeds, or open the port";
  if (id == fault_ids::seed_no_control_port)
    return "discovery.seeds needs the port that the node there has as net.control_port";
  if (id == fault_ids::seed_silent)
    return "look whether the node there hangs or is stopped, and whether the port is its "
           "net.control_port";
  if (id == fault_ids::seed_tls)
    return "all nodes need tls.cert, tls.key and tls.ca of one CA and one cluster, or none of them";
  return ""; // The refusing node's own words say what to do.
}

const char* id_of(discovery::refusal why) {
  switch (why) {
  case discovery::refusal::name_taken:
    return fault_ids::name_in_use;
  case discovery::refusal::out_of_reach:
    return fault_ids::advertise_out_of_reach;
  case discovery::refusal::no_majority:
  case discovery::refusal::full:
  case discovery::refusal::malformed:
    break;
  }
  return fault_ids::join_refused;
}

const char* fix_of(discovery::refusal why) {
  switch (why) {
  case discovery::refusal::name_taken:
    return "give one of the two another node.name, or stop the other one";
  case discovery::refusal::full:
    return "this node goes on asking; where the cluster has as many members as it may have, one "
           "has "
           "to leave first";
  default:
    return "";
  }
}

std::string address_of(const discovery::endpoint& at) {
  return at.host + ":" + std::to_string(at.port);
}

} // namespace

void seed_answers::failed(const discovery::endpoint& at, const caf::error& why) {
  const auto fault = link::fault_of(why);
  const auto* id = id_of(why, fault);
  by_address_[at] = {id, address_of(at) + ": " + peer_text(fault.message), fix_of(id), false};
}

void seed_answers::no_address(const discovery::endpoint& at, const std::string& why) {
  without_address_.insert_or_assign(at, why);
}

void seed_answers::welcomed(const discovery::endpoint& at, const std::string& name) {
  by_address_[at] = {fault_ids::seed_undecided,
                     address_of(at) + ": node '" + peer_text(name) +
                         "' answers and has not taken this node in",
                     "look at its log; it may wait for a cluster itself", true};
}

void seed_answers::broke(const discovery::endpoint& at) {
  by_address_[at] = {fault_ids::seed_silent, address_of(at) + ": the connection broke",
                     fix_of(fault_ids::seed_silent), false};
}

void seed_answers::refused(discovery::refusal why, const std::string& reason) {
  refusal_ = {id_of(why), "the cluster refuses this node: " + peer_text(reason), fix_of(why), true};
}

void seed_answers::clear() {
  by_address_.clear();
  refusal_ = {};
}

link::node_fault seed_answers::fault_of_name(const discovery::endpoint& seed) const {
  return {fault_ids::seed_no_address,
          "no address for the seed " + address_of(seed) + " (" + without_address_.at(seed) + ")",
          "correct the name in discovery.seeds, or look at DNS; this node goes on looking it up"};
}

std::vector<link::node_fault>
seed_answers::faults_of_names(const std::vector<discovery::endpoint>& seeds) const {
  std::vector<link::node_fault> all;
  for (const auto& seed : seeds)
    if (lacks_address(seed))
      all.push_back(fault_of_name(seed));
  return all;
}

std::vector<link::node_fault>
seed_answers::faults(const std::vector<discovery::endpoint>& seeds) const {
  std::vector<link::node_fault> all;
  bool answered = seeds.empty();
  for (const auto& seed : seeds) {
    if (lacks_address(seed)) {
      all.push_back(fault_of_name(seed));
      continue;
    }
    const auto said = by_address_.find(seed);
    if (said == by_address_.end())
      continue;
    const auto& its = said->second;
    answered = answered || its.by_node;
    // Once the cluster has refused this node, a seed that merely answers is not a fault of its own.
    if (!its.by_node || refusal_.id == nullptr)
      all.emplace_back(its.id, its.words, its.fix);
  }
  if (refusal_.id != nullptr && answered)
    all.insert(all.begin(), link::node_fault(refusal_.id, refusal_.words, refusal_.fix));
  return all;
}

std::string seed_answers::text(const std::vector<discovery::endpoint>& seeds) const {
  std::string line;
  for (const auto& fault : faults(seeds))
    line += (line.empty() ? "" : "; ") + fault.what;
  return line;
}

} // namespace peercache::actors
