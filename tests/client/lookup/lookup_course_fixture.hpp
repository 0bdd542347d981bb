#pragma once

#include "client/lookup/lookup_course.hpp"
#include "directory/wire.hpp"
#include "discovery/view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace peercache::client {

using namespace std::chrono_literals;

/// The look-ups of one call at three nodes; the test gives the nodes' answers and moves the time.
class lookup_course_test : public testing::Test {
protected:
  static constexpr std::size_t nodes_count = 3;

  lookup_course_test() {
    for (std::size_t i = 0; i < nodes_count; ++i) {
      auto& node = nodes.emplace_back();
      node.name = "node" + std::to_string(i);
      node.id = node_id_of(node.name);
      node.inc = {1, i + 1};
      linked[node.id] = node.inc;
    }
    std::sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    ring.emplace(nodes);
    begin_call();
  }

  void begin_call() { course.emplace(health); }
  /// Begins the call's next look-up, of `count` keys.
  void begin(std::size_t count, std::uint32_t replicas = 2) {
    keys.clear();
    for (std::size_t i = 0; i < count; ++i)
      keys.push_back(key_space{}.key_of(std::to_string(i)));
    answers.assign(count, {});
    plan.emplace(keys, answers);
    course->begin(*plan);
    owners_known known;
    known.view = {1, 1};
    known.now = &*ring;
    known.replicas = replicas;
    known.is_member = [](const auto&) { return true; };
    plan->follow(known);
  }

  std::vector<lookup_course::question*> next(std::chrono::nanoseconds left = 1s) {
    const auto process_of = [this](node_id id) -> const incarnation* {
      const auto found = linked.find(id);
      return found != linked.end() ? &found->second : nullptr;
    };
    return course->next_round(process_of, now, now + left);
  }

  bool answer(lookup_course::question* asked, bool has_it) {
    directory::page_location place;
    place.holder = {9, 9};
    place.length_bytes = 64;
    place.gen = {2};
    std::string said;
    for (std::size_t i = 0; i < asked->share.indices.size(); ++i)
      directory::append_answer(said, std::span(&place, has_it ? 1 : 0));
    return course->answered(*asked, said, now);
  }
  void fail(lookup_course::question* asked, page_status why = page_status::timed_out) {
    course->failed(*asked, why, now);
  }
  /// Makes `calls` calls, in each of which the first owner that is asked for key 0 fails. Returns
  /// this owner.
  node_id first_owner_fails(int calls) {
    node_id owner;
    for (int i = 0; i < calls; ++i) {
      begin_call();
      begin(1);
      const auto shares = next();
      owner = shares.at(0)->share.owner;
      fail(shares[0]);
    }
    return owner;
  }

  peer_health health;
  std::vector<discovery::member> nodes;
  std::optional<discovery::hash_ring> ring;
  std::map<node_id, incarnation> linked;
  std::optional<lookup_course> course;
  std::vector<page_key> keys;
  std::vector<lookup_answer> answers;
  std::optional<lookup_plan> plan;
  deadline now{1h};
};

} // namespace peercache::client
