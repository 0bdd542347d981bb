#include "actors/monitoring/cluster_overview.hpp"

#include "common/assert.hpp"
#include "common/fault_ids.hpp"

#include <algorithm>
#include <utility>

namespace peercache::actors {

cluster_overview::cluster_overview(std::string cluster, discovery::member self)
    : cluster_(std::move(cluster)), self_(std::move(self)) {}

const discovery::view& cluster_overview::view() const noexcept {
  static const discovery::view none;
  return topology_ ? topology_->view : none;
}

void cluster_overview::take(topology_ptr next) {
  topology_ = std::move(next);
  PEERCACHE_ASSERT(topology_);
  std::erase_if(nodes_, [this](const auto& known) {
    return known.first != self_.inc && view().find(known.first) == nullptr;
  });
}

void cluster_overview::forget() {
  nodes_.clear();
}

std::vector<discovery::member> cluster_overview::shown() const {
  auto all = view().members;
  if (view().find(self_.inc) == nullptr)
    all.push_back(self_);
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return discovery::natural_less(a.name, b.name); });
  return all;
}

bool cluster_overview::is_linked(const incarnation& who) const {
  const auto* peer = topology_ ? topology_->find(who) : nullptr;
  return who == self_.inc || (peer != nullptr && peer->linked());
}

std::vector<incarnation> cluster_overview::due(time_point now, std::uint64_t unix_ms,
                                               std::chrono::milliseconds every) {
  std::vector<incarnation> whom;
  auto all = shown();
  std::stable_sort(all.begin(), all.end(), [this](const auto& a, const auto& b) {
    return nodes_[a.inc].asked < nodes_[b.inc].asked;
  });
  for (const auto& member : all) {
    auto& known = nodes_[member.inc];
    const bool waits = known.heard() && !known.untried && now - known.asked < every;
    if (known.asking || waits || whom.size() == asked_per_turn)
      continue;
    if (!is_linked(member.inc)) {
      note_unlinked(known, member.inc, now, unix_ms);
      continue;
    }
    known.asked = now;
    known.asking_ms = unix_ms;
    known.asking_in = view().stamp();
    known.asking = true;
    whom.push_back(member.inc);
  }
  return whom;
}

void cluster_overview::note_unlinked(known_node& known, const incarnation& who, time_point now,
                                     std::uint64_t unix_ms) const {
  const auto* peer = topology_->find(who);
  known.untried = peer != nullptr && !peer->tried;
  known.asked_ms = known.answered_ms = unix_ms;
  known.fault = error{errc::unreachable, "no connection to it"};
  if (!known.untried)
    known.asked = now;
}

void cluster_overview::answered(const incarnation& who, time_point now, std::uint64_t unix_ms,
                                result<node_status> answer) {
  const auto found = nodes_.find(who);
  if (found == nodes_.end()) // The node has left the view, or all was forgotten.
    return;
  auto& known = found->second;
  known.asking = known.untried = false;
  known.asked_ms = known.asking_ms;
  known.said_in = known.asking_in;
  known.answered_ms = unix_ms;
  if (answer) {
    known.last = std::move(*answer);
    known.fault.reset();
    known.answered = now;
  } else {
    known.fault = answer.error();
  }
}

const cluster_overview::known_node* cluster_overview::find(const incarnation& who) const {
  const auto found = nodes_.find(who);
  return found == nodes_.end() ? nullptr : &found->second;
}

bool cluster_overview::complete() const {
  const auto all = shown();
  return std::all_of(all.begin(), all.end(), [this](const auto& member) {
    const auto* known = find(member.inc);
    return known != nullptr && known->heard();
  });
}

std::vector<node_answer> cluster_overview::answers() const {
  std::vector<node_answer> all;
  for (const auto& member : shown()) {
    const auto* known = find(member.inc);
    if (view().find(member.inc) == nullptr || known == nullptr)
      continue;
    node_answer answer;
    answer.member = member;
    answer.asked_ms = known->asked_ms;
    answer.answered_ms = known->answered_ms;
    answer.untried = known->untried;
    answer.of_earlier_view = known->said_in != view().stamp();
    if (known->fault)
      answer.fault = *known->fault;
    else
      answer.status = known->last;
    all.push_back(std::move(answer));
  }
  return all;
}

bool cluster_overview::tells_faults() const {
  const auto* leader = view().leader();
  return view().find(self_.inc) == nullptr || (leader != nullptr && leader->inc == self_.inc);
}

std::vector<cluster_fault> cluster_overview::faults() const {
  PEERCACHE_ASSERT(complete());
  const auto own = find(self_.inc)->last.value_or(node_status{});
  auto all = faults_of(own, view(), answers());
  if (!view().members.empty() && view().find(self_.inc) == nullptr)
    all.push_back(
        {fault_ids::node_unready, self_.name, self_.name + " is not ready: " + own.unready_reason});
  return all;
}

} // namespace peercache::actors
