#include "client/session/session_news.hpp"

#include "client/session/session_actor.hpp"
#include "common/limits.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace peercache::client {

using namespace std::chrono_literals;
using link::member_question;

namespace {

/// How long a question may wait to be sent when nobody waits for its answer.
constexpr auto telling_patience = 5s;

/// Tells a member something, best effort.
void tell(const session_actor_options& by, const incarnation& whom, member_question what,
          std::string body) {
  by.ask(whom, {what, std::move(body), std::chrono::steady_clock::now() + telling_patience,
                [](const member_answer&) {}});
}

bool send_stale_records(const session_actor_options& by) {
  auto& board = *by.board;
  auto cluster = board.topology();
  const auto pool = board.pool();
  // Without a node nobody says how many owners a key has.
  auto batches = board.stale.take_batches(cluster->ring, pool ? pool->directory_replicas
                                                              : limits::directory_replicas_default);
  for (auto& batch : batches)
    if (const auto* owner = cluster->find(batch.owner); owner != nullptr && owner->linked())
      tell(by, owner->self.inc, member_question::withdraw, std::move(batch.records));
  return !batches.empty();
}

bool send_releases(const session_actor_options& by) {
  auto& board = *by.board;
  auto releases = board.releases.take();
  if (releases.empty())
    return false;
  const auto cluster = board.topology();
  for (auto& [inc, pages] : releases)
    if (const auto* holder = cluster->find(inc); holder != nullptr && holder->linked())
      tell(by, inc, member_question::hold, link::hold_body({board.hold_tag.value, 0, pages}));
  return true;
}

} // namespace

bool send_news(const session_actor_options& by) {
  const bool false_records = send_stale_records(by);
  return send_releases(by) || false_records;
}

bool send_uses(const session_actor_options& by) {
  auto& board = *by.board;
  auto uses = board.uses.take();
  if (uses.empty())
    return false;
  auto cluster = board.topology();
  for (auto& [inc, pages] : uses)
    if (const auto* holder = cluster->find(inc); holder != nullptr && holder->linked())
      tell(by, inc, member_question::used, std::move(pages));
  return true;
}

void give_back_idle_slots(const session_actor_options& by) {
  const auto pool = by.board->pool();
  std::string idle;
  for (const auto slot : pool ? pool->leases.take_idle() : std::vector<slot_id>{})
    link::append_record(idle, slot);
  if (!idle.empty())
    caf::anon_send(pool->gateway, link::abandon_atom_v, pool->session, std::move(idle));
}

} // namespace peercache::client
