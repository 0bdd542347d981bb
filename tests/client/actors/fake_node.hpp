#pragma once

#include "discovery/view_codec.hpp"
#include "link/protocol/disk_wire.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/overlap_wire.hpp"
#include "link/protocol/pool_wire.hpp"
#include "storage/pool_memory.hpp"
#include "tests/client/small_pool.hpp"

#include <caf/all.hpp>

#include <functional>
#include <string>
#include <vector>

namespace peercache::client {

/// What a drain came to in which new owners took this many records.
inline link::drain_report drain_of(std::uint64_t given) {
  link::drain_report came_to;
  came_to.given = given;
  return came_to;
}

/// What a fake gateway has been asked and told, and what it answers. A question whose function
/// (such as `removes`) is empty stays open until the test answers it, as at a frozen node. Threads:
/// the gateway's; the test's while the gateway has nothing to do, and before the first message.
struct fake_node {
  link::peer_welcome hello;
  link::session_welcome welcome;
  std::string refuses; ///< The error with which the node refuses every hello; empty: it accepts
                       ///< them.
  std::vector<caf::typed_response_promise<std::string, std::string>> commits;
  std::vector<std::string> committed;   ///< For each commit: its packed filled_slot records.
  std::vector<link::commit_mode> modes; ///< For each commit: its mode.
  std::vector<caf::typed_response_promise<std::string>> reservations;
  /// Promises of answers to removes and promotes.
  std::vector<caf::typed_response_promise<std::string>> answers;
  std::string abandoned;                ///< Packed slot_ids that clients gave back.
  std::string used;                     ///< Packed used_page records of all reports of reads.
  std::vector<std::uint64_t> cleared;   ///< Spaces that the node was asked to clear.
  std::vector<std::string> removed;     ///< For each removal: its packed page_keys.
  std::vector<std::string> promoted;    ///< For each promote: its packed promoted_page records.
  std::vector<link::call_report> calls; ///< Reports of clients on their calls.
  std::vector<metrics::samples> totals; ///< Reports of clients on their totals.
  std::vector<link::gpu_report> on_gpu; ///< Reports of clients on the blocks on their GPUs.
  std::string warmed;                   ///< Packed promoted_page records of all prefetches.
  std::string gone;                ///< Names of gone nodes that came with clears, one per line.
  std::uint64_t evicted_bytes = 0; ///< Bytes that the node was asked to evict from its disk.
  bool has_disk = false;
  bool loses_gpu = false; ///< Whether reports of blocks on GPUs are answered with an error.
  /// Whether reports of blocks on GPUs are answered with false: not taken.
  bool refuses_gpu = false;
  caf::result<bool> take_gpu(const std::string& told) {
    if (loses_gpu)
      return caf::make_error(caf::sec::runtime_error);
    if (!refuses_gpu)
      on_gpu.push_back(link::decode_gpu_report(told).value());
    return !refuses_gpu;
  }
  bool evict(std::uint64_t bytes) {
    evicted_bytes += bytes;
    return has_disk;
  }
  link::node_report report;
  link::clear_report clear_answer;
  link::drain_report drain_answer = drain_of(7);
  std::function<std::string(const std::string& lengths)> slots_for;
  std::function<std::string(const std::string& filled)> statuses_of;
  std::function<std::string(const std::string& keys)> removes;
  std::function<std::string(const std::string& pages)> promotes;
  std::vector<std::string> held; ///< For each request to hold pages: its packed used_page records.
  /// Packed used_page records of the holds that the client `holder` has ended.
  std::string released;
  std::uint32_t holder = 0;  ///< Tag of the client that last asked to hold pages.
  std::uint32_t held_ms = 0; ///< Time in ms for which the last such request wants pages held.
  std::function<std::string(const std::string& pages)> holds;
  std::function<std::string()> view;
  link::session_welcome open(const link::session_listener& events) {
    listener = events;
    ++welcome.lock_index; // This test's process still holds the lock of the last session.
    return welcome;
  }
  link::session_listener listener; ///< The client that opened the last session.
  /// The gateway calls this at its next beat. Tests keep promises in it, because only the actor
  /// that made a promise may keep it.
  std::function<void()> at_beat;
};

/// Returns the member of the cluster whose pool this is.
inline discovery::member member_of(const storage::pool_memory& memory, const std::string& name) {
  discovery::member member;
  member.name = name;
  member.id = node_id_of(name);
  member.inc = memory.owner();
  member.host = "127.0.0.1";
  return member;
}

inline fake_node fake_node_of(const storage::pool_memory& memory) {
  fake_node made;
  made.welcome.session = 1;
  made.welcome.pool_name = memory.name();
  made.welcome.member = discovery::encode_member(member_of(memory, "fake"));
  return made;
}

using answers_of_a_node = std::vector<caf::typed_response_promise<std::string>>;

/// Returns the promise of an answer to this question: kept by `says` at once, or left open if
/// `says` is empty.
inline caf::typed_response_promise<std::string>
answer_to(link::gateway_actor::pointer self, answers_of_a_node& all,
          const std::function<std::string(const std::string&)>& says, const std::string& question) {
  all.push_back(self->make_response_promise<std::string>());
  if (says)
    all.back().deliver(says(question));
  return all.back();
}

/// Notes the question in `asked`, and answers as `answer_to` does.
inline caf::typed_response_promise<std::string>
answer_to(link::gateway_actor::pointer self, fake_node& node, std::vector<std::string>& asked,
          const std::function<std::string(const std::string&)>& says, const std::string& question) {
  asked.push_back(question);
  return answer_to(self, node.answers, says, question);
}

inline caf::typed_response_promise<std::string, std::string>
answer_to_commit(link::gateway_actor::pointer self, fake_node& node, const std::string& filled,
                 std::uint8_t mode, const std::string& lengths) {
  node.committed.push_back(filled);
  node.modes.push_back(static_cast<link::commit_mode>(mode));
  node.commits.push_back(self->make_response_promise<std::string, std::string>());
  if (node.statuses_of)
    node.commits.back().deliver(node.statuses_of(filled),
                                node.slots_for ? node.slots_for(lengths) : std::string{});
  return node.commits.back();
}

inline std::string keep(std::string& all, const std::string& told) {
  all += told;
  return {};
}

inline caf::typed_response_promise<std::string>
answer_to_hold(link::gateway_actor::pointer self, fake_node& node, const std::string& pages,
               std::uint32_t holder, std::uint32_t for_ms) {
  if (for_ms == 0) {
    node.released += holder == node.holder ? pages : "";
    return answer_to(
        self, node.answers,
        [](const std::string& all) {
          return std::string(*link::record_count<link::used_page>(all), '\2');
        },
        pages);
  }
  node.holder = holder;
  node.held_ms = for_ms;
  node.held.push_back(pages);
  return answer_to(self, node.answers, node.holds, pages);
}

inline caf::result<link::peer_welcome> answer_to_hello(const fake_node& node) {
  if (!node.refuses.empty())
    return caf::make_error(caf::sec::incompatible_application_ids, node.refuses);
  return node.hello;
}

inline link::gateway_actor::behavior_type run_fake_gateway(link::gateway_actor::pointer self,
                                                           fake_node* node) {
  using namespace link;
  return {
      [node](gpu_atom, std::uint64_t, const std::string& told) { return node->take_gpu(told); },
      [](gpu_atom, const std::string&) { return encode(gpu_run{}); },
      [](locate_atom, const std::string&) { return encode(std::vector<overlap_match>{}); },
      [node](hello_atom, std::uint32_t, const std::string&, const std::string&) {
        return answer_to_hello(*node);
      },
      [node](session_atom, const std::string&, const session_listener& events) {
        return node->open(events);
      },
      [self, node](reserve_atom, std::uint64_t, const std::string& lengths) {
        return answer_to(self, node->reservations, node->slots_for, lengths);
      },
      [self, node](commit_atom, std::uint64_t, const std::string& filled, std::uint8_t mode,
                   const std::string& lengths) {
        return answer_to_commit(self, *node, filled, mode, lengths);
      },
      [](leave_atom, std::uint64_t) {},
      [node](abandon_atom, std::uint64_t, const std::string& slots) { node->abandoned += slots; },
      [node](report_atom, std::uint64_t, metrics::samples& said) { node->totals.push_back(said); },
      [node](used_atom, const std::string& pages, from_here) { return keep(node->used, pages); },
      [self, node](hold_atom, const std::string& pages, std::uint32_t who, std::uint32_t for_ms,
                   from_here) { return answer_to_hold(self, *node, pages, who, for_ms); },
      [self, node](remove_atom, const std::string& keys, from_here) {
        return answer_to(self, *node, node->removed, node->removes, keys);
      },
      [self, node](promote_atom, const std::string& pages, std::uint32_t, from_here) {
        return answer_to(self, *node, node->promoted, node->promotes, pages);
      },
      [node](warm_atom, const std::string& pages, from_here) { return keep(node->warmed, pages); },
      [node](verify_atom) { return node->has_disk; },
      [node](evict_atom, std::uint64_t bytes) { return node->evict(bytes); },
      [node](status_atom) { return node->report; },
      [](history_atom, std::uint64_t, std::uint64_t) { return history_report{}; },
      [](list_atom) { return sessions_report{}; },
      [node](calls_atom, std::uint64_t, const call_report& said) { node->calls.push_back(said); },
      [](calls_atom) { return calls_report{}; },
      [](lost_atom, const std::string&) { return lost_report{}; },
      [](census_atom) { return page_census{}; },
      [](log_atom, const std::string& level) { return level; },
      [node](view_atom) { return node->view ? node->view() : std::string{}; },
      [node](view_atom, const std::string&) { return node->view ? node->view() : std::string{}; },
      [node](clear_atom, std::uint64_t space, std::uint32_t, const std::string& gone) {
        node->cleared.push_back(space);
        node->gone += gone;
        return node->clear_answer;
      },
      [](tell_atom, const std::string&) { return std::string{}; },
      [](tell_atom, from_here) {},
      [](outside_atom, const std::string&, from_here) {},
      [](forget_atom, const std::string&) { return false; },
      [](drain_atom) { return true; },
      [node](drain_atom, bool drained) { return drained ? node->drain_answer : drain_report{}; },
      [](topology_atom, const topology_ptr&) {},
      [node](beat_atom, from_here) { node->at_beat(); },
  };
}

/// What the actor of a directory shard hears and answers. Clients do not ask it: their look-ups go
/// over a socket to tests/client/actors/lookup_server.hpp.
struct fake_shard {
  std::string withdrawn; ///< Packed withdraw_record of the last withdrawal.
  std::string answer;    ///< What each look-up is answered.
};

inline link::directory_actor::behavior_type run_fake_shard(link::directory_actor::pointer,
                                                           fake_shard* shard) {
  using namespace link;
  return {
      [](publish_atom, const std::string&) { return std::string{}; },
      [](publish_atom, const std::string&, std::uint64_t, std::uint64_t) { return std::string{}; },
      [shard](withdraw_atom, const std::string& records) {
        shard->withdrawn += records;
        return std::uint64_t{0};
      },
      [shard](lookup_atom, const std::string&) { return shard->answer; },
      [](compare_atom, const std::string&) { return std::uint64_t{0}; },
      [](list_atom, const std::string&) { return std::string{}; },
      [](give_atom, bool, std::uint32_t, from_here) { return drain_report{}; },
      [](pump_atom, from_here) {},
      [](lost_atom, const std::string&, from_here) { return lost_report{}; },
      [](stats_atom) -> caf::result<metrics::samples, directory_report> {
        return {metrics::samples{}, directory_report{}};
      },
      [](topology_atom, const topology_ptr&) {},
      [](leave_atom, const std::string&, from_here) {},
      [](clear_atom, from_here) {},
      [](beat_atom, from_here) {}};
}

} // namespace peercache::client
