#include "client/session.hpp"

#include "actors/connector_actor.hpp"
#include "actors/links_actor.hpp"
#include "actors/protocol/pool_wire.hpp"
#include "client/committer.hpp"

#include <algorithm>
#include <chrono>
#include <unistd.h>

namespace peercache::client {

using namespace std::chrono_literals;

namespace {

/// Of the connector: a member that is out of reach holds up a `connect` for no longer.
constexpr auto dial_timeout = 300ms;

} // namespace

actors::topology_ptr session_board::topology() const {
  std::lock_guard guard{lock_};
  return topology_;
}

own_pool_ptr session_board::pool() const {
  std::lock_guard guard{lock_};
  return pool_;
}

void session_board::set_topology(actors::topology_ptr next) {
  {
    std::lock_guard guard{lock_};
    topology_ = std::move(next);
  }
  changed_.notify_all();
}

void session_board::set_pool(own_pool_ptr next) {
  {
    std::lock_guard guard{lock_};
    pool_.swap(next);
    if (pool_)
      fault_.reset();
  }
  if (next)
    next->closing = true;
  changed_.notify_all();
}

void session_board::set_fault(error why) {
  {
    std::lock_guard guard{lock_};
    fault_ = std::move(why);
  }
  changed_.notify_all();
}

session_board::readiness session_board::ready_now() const {
  const auto* own = pool_ ? topology_->find(pool_->node.inc) : nullptr;
  if (own == nullptr || !own->linked())
    return readiness::no_node;
  auto settled = std::all_of(topology_->peers.begin(), topology_->peers.end(),
                             [](const auto& peer) { return peer.linked() || peer.tried; });
  return settled ? readiness::settled : readiness::linking;
}

session_board::readiness session_board::ready() const {
  std::lock_guard guard{lock_};
  return ready_now();
}

result<void> session_board::wait_ready(deadline until) const {
  std::unique_lock guard{lock_};
  changed_.wait_until(guard, until, [this] {
    return ready_now() != readiness::no_node || (fault_ && fault_->code == errc::incompatible);
  });
  if (ready_now() == readiness::no_node)
    return fault_.value_or(error{errc::timed_out, "no answer in time"});
  until = std::min(until, std::chrono::steady_clock::now() + dial_timeout);
  changed_.wait_until(guard, until, [this] { return ready_now() == readiness::settled; });
  return {};
}

session::session(const client_options& options,
                 std::function<actors::client_report()> report_totals,
                 std::function<void(const page_key&, const directory::page_location&)> remember)
    : config_(std::make_unique<actors::system_config>(2)),
      system_(std::make_unique<caf::actor_system>(*config_)),
      board_(std::make_shared<session_board>(options.unacknowledged_bytes_max)) {
  board_->set_topology(std::make_shared<actors::topology>());
  auto connector = system_->spawn(actors::run_connector, dial_timeout);
  auto name = "client-" + std::to_string(::getpid());
  actors::links_options links;
  links.cluster = options.cluster;
  links.own_name = name;
  links.connector = connector;
  links.publish = [board = board_](const actors::topology_ptr& next) { board->set_topology(next); };
  auto links_handle = system_->spawn(actors::run_links, std::move(links));
  committer_options committing;
  committing.node_host = options.node_host;
  committing.node_port = options.node_port;
  committing.cluster = options.cluster;
  committing.client_name = name;
  committing.connector = connector;
  committing.links = links_handle;
  committing.board = board_;
  committing.report_totals = std::move(report_totals);
  committing.remember = std::move(remember);
  committer_ = system_->spawn(run_committer, std::move(committing));
  connector_and_links_[0] = caf::actor_cast<caf::actor>(connector);
  connector_and_links_[1] = caf::actor_cast<caf::actor>(links_handle);
}

session::~session() {
  {
    caf::scoped_actor self{*system_};
    self->request(committer_, 500ms, actors::leave_atom_v).receive([](bool) {}, [](caf::error&) {});
    self->send_exit(committer_, caf::exit_reason::user_shutdown);
    for (auto& helper : connector_and_links_)
      self->send_exit(helper, caf::exit_reason::user_shutdown);
  }
  callers_.clear();
  committer_ = nullptr;
  for (auto& helper : connector_and_links_)
    helper = nullptr;
  board_->set_topology(nullptr);
  board_->set_pool(nullptr);
  // Whatever still refers to an actor must not keep the caller's process from ending.
  system_->await_actors_before_shutdown(false);
}

session::caller::caller(session& owner) : owner_(owner) {
  {
    std::lock_guard guard{owner.callers_lock_};
    if (!owner.callers_.empty()) {
      actor_ = std::move(owner.callers_.back());
      owner.callers_.pop_back();
    }
  }
  if (!actor_)
    actor_ = std::make_unique<caf::scoped_actor>(*owner.system_);
}

session::caller::~caller() {
  if (spoiled_)
    return;
  std::lock_guard guard{owner_.callers_lock_};
  owner_.callers_.push_back(std::move(actor_));
}

} // namespace peercache::client
