#include "nemesis.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace peercache::chaos {

namespace {

constexpr std::array<std::string_view, fault_kinds> names = {
    "kill", "freeze",     "partition",  "one_way",   "loss",
    "wipe", "clock_jump", "black_hole", "drain_join"};
/// Longest wait for a draining node to end. The nodes have a drain time of three seconds, and a
/// draining node ends five seconds after that at the latest.
constexpr std::chrono::seconds drain_limit{10};

} // namespace

std::string_view to_string(fault_kind kind) {
  return names[static_cast<std::size_t>(kind)];
}

nemesis::nemesis(const chaos_plan& plan, chaos_cluster& cluster, cluster_watch& watch)
    : plan_(plan), cluster_(cluster), watch_(watch), random_(plan.load.seed) {
  for (auto name : names)
    counts_[std::string(name)] = 0;
}

std::chrono::milliseconds nemesis::draw_ms(std::uint64_t least, std::uint64_t most) {
  return std::chrono::milliseconds(least + draw(most - least + 1));
}

std::vector<std::uint32_t> nemesis::idle_hosts() const {
  auto idle = cluster_.all_running();
  for (const auto& fault : faults_)
    std::erase_if(idle, [&](std::uint32_t host) {
      return std::find(fault.hosts.begin(), fault.hosts.end(), host) != fault.hosts.end();
    });
  return idle;
}

result<void> nemesis::step(clock::time_point now) {
  for (std::size_t i = 0; i < faults_.size();) {
    auto over = faults_[i].until <= now ? end(faults_[i], now) : result<bool>(false);
    if (!over)
      return over.error();
    if (*over)
      faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  if (now < next_at_)
    return {};
  next_at_ = now + draw_ms(300, 2500);
  return begin(now);
}

result<void> nemesis::begin(clock::time_point now) {
  constexpr std::size_t at_a_time = 2;
  // A fault is drawn whether or not it can be used now, so that the n-th fault of a seed is always
  // of the same kind.
  running_fault fault{plan_.kinds[draw(plan_.kinds.size())], {}, now + draw_ms(500, 6000)};
  auto idle = idle_hosts();
  if (faults_.size() >= at_a_time || idle.size() < 2)
    return {};
  if (auto begun = begin(fault, idle); !begun)
    return begun;
  if (fault.hosts.empty())
    return {};
  counts_[std::string(to_string(fault.kind))] += 1;
  faults_.push_back(std::move(fault));
  return {};
}

result<void> nemesis::begin(running_fault& fault, const std::vector<std::uint32_t>& idle) {
  auto host = idle[draw(idle.size())];
  fault.hosts = {host};
  switch (fault.kind) {
  case fault_kind::kill:
    kill(host);
    if (draw(2) == 0)
      fault.until = {}; // Half of the killed nodes start again at once.
    return {};
  case fault_kind::freeze:
    watch_.expect(host, false);
    cluster_.freeze(host);
    return {};
  case fault_kind::partition:
    return begin_partition(fault, idle);
  case fault_kind::one_way: {
    auto other = idle[draw(idle.size())];
    if (other == host)
      other = host == idle.front() ? idle.back() : idle.front();
    fault.hosts.push_back(other);
    return cluster_.net().cut(host, other);
  }
  case fault_kind::loss:
    return cluster_.net().lose(host, static_cast<std::uint32_t>(5 + draw(35)));
  case fault_kind::wipe:
    kill(host);
    cluster_.wipe_disk(host);
    fault.until = {};
    return {};
  case fault_kind::clock_jump:
    return cluster_.jump_clock(host, draw(2) == 0 ? 3600 : -3600);
  case fault_kind::black_hole:
    return cluster_.net().deafen(host);
  case fault_kind::drain_join:
    return begin_join(fault);
  }
  return {};
}

result<void> nemesis::begin_partition(running_fault& fault, std::vector<std::uint32_t> idle) {
  std::shuffle(idle.begin(), idle.end(), random_);
  idle.resize(1 + draw(idle.size() / 2));
  fault.hosts = idle;
  return cluster_.net().part({idle.begin(), idle.end()});
}

/// Starts a node on the host where no node runs. When the fault ends, the node of the drawn host
/// leaves.
result<void> nemesis::begin_join(running_fault& fault) {
  for (std::uint32_t host = 0; host < cluster_.hosts(); ++host)
    if (!cluster_.running(host) &&
        std::none_of(faults_.begin(), faults_.end(), [host](const auto& other) {
          return std::find(other.hosts.begin(), other.hosts.end(), host) != other.hosts.end();
        })) {
      fault.hosts.push_back(host);
      return start(host);
    }
  fault.hosts.clear();
  return {};
}

result<bool> nemesis::end(running_fault& fault, clock::time_point now) {
  auto host = fault.hosts.front();
  bool over = true;
  result<void> done;
  switch (fault.kind) {
  case fault_kind::kill:
  case fault_kind::wipe:
    done = start(host);
    break;
  case fault_kind::freeze:
    cluster_.thaw(host);
    watch_.expect(host, true);
    break;
  case fault_kind::partition:
  case fault_kind::one_way:
  case fault_kind::loss:
  case fault_kind::black_hole:
    for (auto each : fault.hosts)
      if (done)
        done = cluster_.net().heal(each);
    break;
  case fault_kind::clock_jump:
    break; // The clock stays wrong until the next jump.
  case fault_kind::drain_join:
    done = end_drain_join(fault, now, over);
    break;
  }
  if (!done)
    return done.error();
  return over;
}

result<void> nemesis::end_drain_join(running_fault& fault, clock::time_point now, bool& over) {
  auto host = fault.hosts.front();
  if (!fault.draining) {
    fault.draining = true;
    fault.until = now;
    cluster_.drain(host);
  }
  over = cluster_.drained(host);
  if (!over && now - fault.until > drain_limit)
    return {errc::timed_out, cluster_.node_name(host) + " does not end although it drains"};
  if (over)
    watch_.expect(host, false);
  return {};
}

result<void> nemesis::end_all() {
  if (auto healed = cluster_.net().heal(); !healed)
    return healed;
  for (auto& fault : faults_)
    while (true) {
      auto over = end(fault, clock::now());
      if (!over)
        return over.error();
      if (*over)
        break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  faults_.clear();
  return {};
}

result<void> nemesis::start(std::uint32_t host) {
  watch_.expect(host, true);
  return cluster_.start(host);
}

void nemesis::kill(std::uint32_t host) {
  watch_.expect(host, false);
  cluster_.kill(host);
}

} // namespace peercache::chaos
