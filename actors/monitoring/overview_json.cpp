#include "actors/monitoring/overview_json.hpp"

#include "metrics/metric_table.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace peercache::actors {

using metrics::metric;
using nlohmann::json;

namespace {

/// Most peers that are named for a node because they sent the most bytes, and as many again because
/// of the most errors.
constexpr std::size_t peers_shown_max = 16;

/// Returns whole numbers as integers: a double is written in the form 1e+15 from that size on.
json number_of(double value) {
  if (value >= 0 && value < 9e15 && value == std::floor(value))
    return static_cast<std::uint64_t>(value);
  return value;
}

/// A number that a part of the node (`link::node_parts`) tells: null when the part did not answer.
json count_of(const node_status& status, const char* part, metric id) {
  return status.lacks(part) ? json() : number_of(status.samples.value(id));
}

json flag_of(const node_status& status, const char* part, metric id) {
  return status.lacks(part) ? json() : json(status.is(id));
}

/// Calls `visit(first word, value)` for each series of a metric.
template <class Visit>
void each_series(const metrics::samples& samples, metric id, Visit visit) {
  const auto& all = samples.values();
  metrics::series first;
  first.id = id;
  for (auto at = all.lower_bound(first); at != all.end() && at->first.id == id; ++at)
    visit(at->first.words, at->second);
}

/// A metric's values that are not 0, by their first word.
json by_word(const metrics::samples& samples, metric id) {
  auto object = json::object();
  each_series(samples, id, [&](const auto& words, double value) {
    if (value != 0)
      object[words[0]] = number_of(value);
  });
  return object;
}

/// Bytes that an operation moved, from all sources.
json bytes_of(const metrics::samples& samples, std::string_view op) {
  double sum = 0;
  each_series(samples, metric::bytes_total, [&](const auto& words, double value) {
    if (words[0] == op)
      sum += value;
  });
  return number_of(sum);
}

json pool_of(const node_status& status) {
  const auto count = [&](metric id) { return count_of(status, link::node_parts::pool, id); };
  return {{"bytes_used", count(metric::pool_bytes_used)},
          {"bytes_capacity", count(metric::pool_bytes_capacity)},
          {"pages", count(metric::pool_pages)},
          {"puts", count(metric::pool_puts_total)},
          {"evictions", count(metric::evictions_total)}};
}

json disk_of(const node_status& status) {
  const auto& said = status.disk;
  const auto* const part = link::node_parts::disk;
  const auto count = [&](metric id) { return count_of(status, part, id); };
  return {{"on", flag_of(status, part, metric::disk_on)},
          {"why_off", said.why_off},
          {"store", said.store},
          {"path", said.path},
          {"breaker", said.breaker},
          {"read_only", flag_of(status, part, metric::disk_read_only)},
          {"bytes_used", count(metric::disk_bytes)},
          {"bytes_capacity", count(metric::disk_bytes_capacity)},
          {"pages", count(metric::disk_records)},
          {"queue_bytes", count(metric::disk_queue_bytes)},
          {"queue_pages", count(metric::disk_queue_pages)},
          {"evictions", count(metric::disk_evictions_total)}};
}

/// What the clients of a node read from one peer, or from all, over rails, TCP or both.
struct peer_traffic {
  std::string peer;
  double bytes = 0, pages = 0, errors = 0;
};

/// Adds what came over one kind of connection, by peer.
void add_traffic(std::map<std::string, peer_traffic>& peers, const metrics::samples& samples,
                 metric bytes, metric pages, metric errors) {
  each_series(samples, bytes,
              [&](const auto& words, double value) { peers[words[0]].bytes += value; });
  each_series(samples, pages,
              [&](const auto& words, double value) { peers[words[0]].pages += value; });
  each_series(samples, errors,
              [&](const auto& words, double value) { peers[words[0]].errors += value; });
}

void add_tcp_traffic(std::map<std::string, peer_traffic>& peers, const metrics::samples& samples) {
  add_traffic(peers, samples, metric::tcp_peer_bytes_total, metric::tcp_peer_reads_total,
              metric::tcp_peer_errors_total);
}

json numbers_of(const peer_traffic& traffic) {
  return {{"bytes", number_of(traffic.bytes)},
          {"pages", number_of(traffic.pages)},
          {"errors", number_of(traffic.errors)}};
}

/// The peers from which the clients of this node read the most, over rails and TCP, and behind them
/// those with the most errors: a peer that refuses all connections sends no bytes.
json peers_of(const metrics::samples& samples) {
  std::map<std::string, peer_traffic> by_name;
  add_traffic(by_name, samples, metric::rdma_peer_bytes_total, metric::rdma_peer_reads_total,
              metric::rdma_peer_errors_total);
  add_tcp_traffic(by_name, samples);
  std::vector<peer_traffic> sorted;
  for (auto& [name, traffic] : by_name) {
    traffic.peer = name;
    sorted.push_back(traffic);
  }
  std::ranges::stable_sort(sorted, std::greater{}, &peer_traffic::bytes);
  const auto rest =
      sorted.begin() + static_cast<std::ptrdiff_t>(std::min(sorted.size(), peers_shown_max));
  std::stable_sort(rest, sorted.end(),
                   [](const auto& one, const auto& other) { return one.errors > other.errors; });
  auto all = json::array();
  for (auto at = sorted.begin(); at != sorted.end() && all.size() < 2 * peers_shown_max; ++at) {
    if (at >= rest && at->errors == 0)
      break;
    all.push_back(numbers_of(*at));
    all.back()["peer"] = at->peer;
  }
  return all;
}

/// What came over TCP from all peers together.
json tcp_of(const metrics::samples& samples) {
  std::map<std::string, peer_traffic> by_name;
  add_tcp_traffic(by_name, samples);
  peer_traffic sum;
  for (const auto& [name, traffic] : by_name) {
    sum.bytes += traffic.bytes;
    sum.pages += traffic.pages;
    sum.errors += traffic.errors;
  }
  return numbers_of(sum);
}

json rails_of(const metrics::samples& samples) {
  auto all = json::array();
  each_series(samples, metric::rdma_read_bytes_total, [&](const auto& words, double value) {
    all.push_back({{"rail", words[0]},
                   {"bytes", number_of(value)},
                   {"reads", number_of(samples.value(metric::rdma_reads_total, {words[0]}))}});
  });
  return all;
}

/// Returns the first word of a text on the choice of the data plane: "tcp" of "tcp: data_plane =
/// tcp".
std::string first_word(const std::string& choice) {
  return choice.substr(0, choice.find_first_of(": ("));
}

/// Adds what a node said of itself when it answered last.
void add_status(json& node, const node_status& status) {
  node["version"] = status.version;
  node["data_plane"] = first_word(status.data_plane);
  node["data_plane_reason"] = status.data_plane;
  node["lookup_port"] = status.lookup_port;
  node["ready"] = status.is(metric::ready);
  node["unready_reason"] = status.unready_reason;
  node["tls"] = status.is(metric::tls);
  node["insecure"] = status.is(metric::insecure);
  node["uptime_ms"] = status.samples.milliseconds(metric::uptime_seconds);
  node["silent"] = status.silent;
  node["sessions"] = number_of(status.samples.value(metric::sessions));
  node["pool"] = pool_of(status);
  node["disk"] = disk_of(status);
  node["records"] = count_of(status, link::node_parts::directory, metric::directory_records);
  node["hits"] = by_word(status.samples, metric::hits_total);
  node["misses"] = by_word(status.samples, metric::misses_total);
  node["bytes"] = {{"get", bytes_of(status.samples, "get")},
                   {"set", bytes_of(status.samples, "set")}};
  node["peers"] = peers_of(status.samples);
  node["rails"] = rails_of(status.samples);
  node["tcp"] = tcp_of(status.samples);
  node["fault_ids"] = fault_ids_of(status);
}

json node_of(const cluster_overview& seen, const discovery::member& member,
             cluster_overview::time_point now) {
  const auto& known = *seen.find(member.inc);
  node_answer answer;
  answer.member = member;
  if (known.fault)
    answer.fault = *known.fault;
  else
    answer.status = known.last;
  json node{{"name", member.name},
            {"host", member.host},
            {"control_port", member.control_port},
            {"data_port", member.data_port},
            {"http_port", member.http_port},
            {"role", role_of(answer, seen.view())},
            {"state", state_of(answer)},
            {"in_view", seen.view().find(member.inc) != nullptr},
            {"draining", member.draining},
            {"reachable", !known.fault},
            {"fault", known.fault ? known.fault->message : ""}};
  if (known.last) {
    node["age_ms"] = (now - known.answered) / std::chrono::milliseconds(1);
    add_status(node, *known.last);
  }
  return node;
}

json gone_members_of(const discovery::view& view) {
  auto all = json::array();
  for (const auto& each : view.gone)
    all.push_back({{"name", each.name},
                   {"host", each.host},
                   {"control_port", each.control_port},
                   {"since_unix_ms", each.since_ms},
                   {"why", to_string(each.why)}});
  return all;
}

/// Adds to each node the share of the keys of which it is an owner, and how far that is from the
/// mean.
void add_ring(json& nodes, const cluster_overview& seen) {
  const auto* own = seen.find(seen.self().inc);
  const auto owners = own != nullptr && own->last ? own->last->count(metric::directory_owners) : 1;
  const auto replicas = std::clamp<std::size_t>(owners, 1, discovery::hash_ring::replicas_max);
  if (!seen.latest() || seen.latest()->ring.empty())
    return;
  const auto shares = seen.latest()->ring.shares(replicas); // The shares are sorted by id.
  const auto owning = static_cast<double>(shares.size());
  const auto copies = std::min(static_cast<double>(replicas), owning);
  for (auto& node : nodes) {
    const auto id = node_id_of(node["name"].get_ref<const std::string&>());
    const auto at =
        std::lower_bound(shares.begin(), shares.end(), id,
                         [](const auto& share, node_id other) { return share.id < other; });
    if (at == shares.end() || at->id != id)
      continue;
    node["ring_share"] = at->listed;
    node["ring_to_mean"] = at->listed * owning / copies;
  }
}

/// Writes JSON as text. A node's texts may not be UTF-8: bytes that are not are replaced, so that
/// every question gets its answer.
std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

std::string overview_json(const cluster_overview& seen, cluster_overview::time_point now,
                          std::uint64_t unix_ms) {
  const auto& view = seen.view();
  auto nodes = json::array();
  for (const auto& member : seen.shown())
    nodes.push_back(node_of(seen, member, now));
  add_ring(nodes, seen);
  auto faults = json::array();
  for (const auto& fault : seen.faults())
    faults.push_back({{"id", fault.id}, {"node", fault.node}, {"text", fault.text}});
  return text_of({{"format", api_format},
                  {"cluster", seen.cluster()},
                  {"asked", seen.self().name},
                  {"unix_ms", unix_ms},
                  {"term", view.term},
                  {"version", view.version},
                  {"fragment", view.fragment()},
                  {"masters", view.masters},
                  {"faults", std::move(faults)},
                  {"nodes", std::move(nodes)},
                  {"gone", gone_members_of(view)}});
}

std::string api_fault_json(const std::string& why) {
  return text_of({{"format", api_format}, {"error", why}});
}

} // namespace peercache::actors
