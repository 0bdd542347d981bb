#include "client/session/session.hpp"

#include "client/members/member_answers.hpp"
#include "client/session/own_address.hpp"
#include "client/session/session_actor.hpp"
#include "common/interruption.hpp"
#include "common/user_group.hpp"
#include "discovery/view.hpp"
#include "discovery/view_difference.hpp"
#include "link/connector_actor.hpp"
#include "link/ending_system.hpp"
#include "link/protocol/pool_wire.hpp"
#include "link/thread_actor.hpp"
#include "net/host_socket.hpp"
#include "net/socket.hpp"

#include <algorithm>
#include <chrono>
#include <unistd.h>

namespace peercache::client {

using namespace std::chrono_literals;

namespace {

/// Time-out of the connector: an unreachable member delays a `connect` by at most this long.
constexpr auto dial_timeout = 300ms;

} // namespace

link::topology_ptr session_board::topology() const {
  std::lock_guard guard{lock_};
  return topology_;
}

own_pool_ptr session_board::pool() const {
  std::lock_guard guard{lock_};
  return pool_;
}

call_start session_board::start_call() const {
  call_start start;
  std::lock_guard guard{lock_};
  if (!pool_) {
    if (last_epochs_)
      start.epochs = storage::epoch_table(*last_epochs_);
    start.memory = last_epochs_;
    return start;
  }
  start.epochs = pool_->epochs;
  if (pool_->epochs.closed()) {
    start.memory = pool_;
    start.left = pool_->node.inc;
  } else {
    start.own = pool_;
  }
  return start;
}

void session_board::set_topology(link::topology_ptr next) {
  {
    std::lock_guard guard{lock_};
    topology_ = std::move(next);
    if (topology_)
      for (const auto& member : topology_->view.members)
        nodes_seen_.insert(member.name);
  }
  changed_.notify_all();
}

std::vector<std::string> session_board::nodes_gone(const link::topology& now) const {
  std::lock_guard guard{lock_};
  std::vector<std::string> gone;
  for (const auto& name : nodes_seen_)
    if (now.view.find_name(name) == nullptr)
      gone.push_back(name);
  return gone;
}

void session_board::set_pool(own_pool_ptr next) {
  std::shared_ptr<storage::epoch_block> epochs;
  if (const auto before = pool(); before && !before->epochs.untouched()) {
    epochs = std::make_shared<storage::epoch_block>();
    before->epochs.copy_to(*epochs);
  }
  {
    std::lock_guard guard{lock_};
    if (epochs)
      last_epochs_ = std::move(epochs);
    pool_.swap(next);
    if (pool_) {
      fault_.reset();
      window.follow(pool_->memory.page_bytes());
    }
  }
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
  wait_interruptibly(guard, changed_, until, [this] {
    return ready_now() != readiness::no_node || (fault_ && fault_->code == errc::incompatible);
  });
  if (ready_now() == readiness::no_node)
    return fault_.value_or(error{errc::timed_out, "no answer in time"});
  until = std::min(until, std::chrono::steady_clock::now() + dial_timeout);
  wait_interruptibly(guard, changed_, until, [this] { return ready_now() == readiness::settled; });
  return {};
}

void session_board::close() {
  window.close();
  {
    std::lock_guard guard{lock_};
    closed_ = true;
  }
  changed_.notify_all();
}

bool session_board::wait_view(const directory::view_number& wanted, deadline until) const {
  std::unique_lock guard{lock_};
  return wait_interruptibly(guard, changed_, until, [&] {
    const auto& view = topology_->view;
    return closed_ || (directory::view_number{view.term, view.version} >= wanted &&
                       ready_now() != readiness::linking);
  });
}

session::session(const client_options& options, std::shared_ptr<net::tls_context> tls,
                 close_signal& closing, call_log& calls,
                 std::function<metrics::samples()> report_totals,
                 std::function<void(const page_key&, const directory::page_location&)> remember)
    : closing_(closing), config_(std::make_unique<link::system_config>(2, std::move(tls))),
      system_(std::make_unique<caf::actor_system>(*config_)),
      board_(std::make_shared<session_board>(options.unacknowledged_bytes_max)),
      members_(std::make_shared<member_channels>(options.cluster, link::tls_of(*system_),
                                                 options.lookup_datagrams)) {
  board_->set_topology(std::make_shared<link::topology>());
  unmapping_thread_ = link::spawn_thread_actor(*system_, "peercache-unmap",
                                               [unmapper = board_->unmapper] { unmapper->run(); });
  connector_ = system_->spawn(link::run_connector, dial_timeout, net::host_sockets{});
  auto name = "client-" + std::to_string(::getpid()) + "/" PEERCACHE_VERSION;
  link::links_options links;
  links.cluster = options.cluster;
  links.own_name = name;
  links.connector = connector_;
  const auto address = std::make_shared<own_address>(options.node_host);
  links.reach = [members = members_, board = board_, address](const discovery::member& whom) {
    const auto own = board->pool();
    members->open(address->to_dial(whom, own && own->node.inc == whom.inc));
  };
  links.keep_only = [members = members_](const discovery::view& view) { members->follow(view); };
  links.publish = [board = board_, address](const link::topology_ptr& next) {
    board->set_topology(address->as_reached(next));
  };
  links_ = system_->spawn(link::run_links, std::move(links));
  // The listener belongs to the connections, so it does not own them.
  members_->listen([links = links_, address, members = members_.get()](const incarnation& member,
                                                                       bool stands) {
    if (const auto other = address->heard(member, stands))
      return members->open(*other);
    caf::anon_send(links, link::hello_atom_v, member.high, member.low, stands, link::from_here{});
  });
  members_thread_ = link::spawn_thread_actor(*system_, "peercache-asks",
                                             [members = members_] { members->run(); });
  session_actor_options committing;
  committing.node_host = options.node_host;
  committing.node_port = options.node_port;
  committing.cluster = options.cluster;
  committing.client_name = name;
  committing.group = group_in_environment();
  committing.connector = connector_;
  committing.links = links_;
  committing.ask = [members = members_](const incarnation& whom, member_request request) {
    members->ask(whom, std::move(request));
  };
  committing.board = board_;
  committing.report_totals = std::move(report_totals);
  committing.calls = &calls;
  committing.remember = std::move(remember);
  actor_ = system_->spawn(run_session_actor, std::move(committing));
}

session::~session() {
  {
    caf::scoped_actor self{*system_};
    self->request(actor_, 500ms, link::leave_atom_v, link::from_here{})
        .receive([](bool) {}, [](caf::error&) {});
    self->send_exit(actor_, caf::exit_reason::user_shutdown);
    self->send_exit(connector_, caf::exit_reason::user_shutdown);
    self->send_exit(links_, caf::exit_reason::user_shutdown);
    // These actors use members of the session, so they must have ended before it does.
    self->wait_for(actor_, connector_, links_);
  }
  members_->stop();
  link::wait_for_thread_actor(*system_, members_thread_);
  members_thread_ = nullptr;
  callers_.clear();
  actor_ = nullptr;
  connector_ = nullptr;
  links_ = nullptr;
  board_->set_topology(nullptr);
  board_->set_pool(nullptr);
  board_->unmapper->stop();
  link::wait_for_thread_actor(*system_, unmapping_thread_);
  unmapping_thread_ = nullptr;
  link::end_system(std::move(config_), std::move(system_));
}

bool session::refresh_view(const incarnation& whom, const directory::view_number& wanted,
                           deadline until) {
  member_answers answers(*members_, closing_);
  const auto now = board_->topology();
  const auto known = now ? now->view : discovery::view{};
  // The second question is for a difference that cannot be applied: it asks for the whole view.
  for (const auto& base : {discovery::encode_stamp(known.stamp()), std::string{}}) {
    const auto asked = answers.ask(whom, link::member_question::view, base, until);
    answers.wait(until);
    const auto told = answers.take(asked).body;
    const auto view = told ? discovery::decode_told_view(*told, known) : discovery::view{};
    if (view && view->term > 0)
      caf::anon_send(links_, link::tell_atom_v, discovery::encode_view(*view), link::from_here{});
    if (view)
      break;
  }
  return board_->wait_view(wanted, until);
}

session::caller::caller(session& owner) : owner_(owner) {
  {
    std::lock_guard guard{owner.callers_lock_};
    if (!owner.callers_.empty()) {
      actor_ = std::move(owner.callers_.back());
      owner.callers_.pop_back();
    }
  }
  if (actor_)
    return;
  actor_ = std::make_unique<link::calling_actor>(*owner.system_);
  link::leave_actor_system();
}

session::caller::~caller() {
  if (spoiled_)
    return;
  std::lock_guard guard{owner_.callers_lock_};
  owner_.callers_.push_back(std::move(actor_));
}

close_signal::waiter session::caller::fail_at_close(std::vector<caf::message_id> requests) {
  actor_->fail_when_interrupted(requests);
  return {owner_.closing_, [asker = actor_->address(), requests = std::move(requests)] {
            for (const auto& request : requests)
              link::fail_request(asker, request);
          }};
}

} // namespace peercache::client
