#include "actors/node/node_impl.hpp"

#include "actors/life_record.hpp"
#include "actors/link_names.hpp"
#include "actors/node/node_options.hpp"
#include "common/assert.hpp"
#include "common/log.hpp"
#include "common/user_group.hpp"
#include "link/node_middleman.hpp"
#include "link/rail_settings.hpp"
#include "link/thread_actor.hpp"
#include "net/socket.hpp"

#include <chrono>
#include <string>

namespace peercache::actors {

using namespace std::chrono_literals;

result<void> node::impl::start() {
  self_.name = config_.node.name;
  self_.id = node_id_of(self_.name);
  self_.inc = incarnation::random();
  auto advertised = net::resolve_host(config_.net.advertise);
  if (!advertised)
    return error{advertised.error().code, "net.advertise: " + advertised.error().message};
  self_.host = std::move(*advertised);
  auto group = group_named(config_.node.group);
  if (!group)
    return error{group.error().code, "node.group: " + group.error().message};
  group_ = *group;
  seeds_ = resolve_seeds(config_.discovery.seeds);
  auto choice = rdma::choose_rails(rails_of(config_));
  if (!choice)
    return choice.error();
  log::info("data plane: {}", choice->why);
  if (auto opened = open_tls(); !opened)
    return opened;
  if (auto held = hold_ports(); !held)
    return held;
  if (auto opened = open_pool(); !opened)
    return opened;
  cleared_ = cleared_spaces(memory_->epochs(), self_.inc);
  recall_last_life();
  disk_ = disk_service::open(config_, self_, *memory_, &cleared_, decorators_.disk);
  auto rails = open_rails(*choice);
  if (!rails)
    return rails.error();
  rails_ = std::move(*rails);
  self_.rails = static_cast<std::uint8_t>(rails_->rails());
  caf_config_ = std::make_unique<system_config>(config_.actors.threads, tls_);
  system_ = std::make_unique<caf::actor_system>(*caf_config_);
  if (auto opened = open_ports(); !opened)
    return opened;
  spawn_actors();
  memory_->outlive(false);
  return {};
}

namespace {

/// Replaces the memory that the previous process let its disk read into, so that no device writes
/// into the pool on behalf of that process.
result<void> cut_devices_off(storage::pool_memory& memory, const storage::pool_remains& remains) {
  for (const auto& extent : remains.extents)
    if (extent.as == storage::claimed_extent::use::being_filled)
      if (auto done = memory.make_anew(extent.slot, extent.granules); !done)
        return done;
  return {};
}

} // namespace

/// Takes over the pool of the previous process, with its pages, or makes a new one. Must run before
/// any device registers the memory.
result<void> node::impl::open_pool() {
  directory::shard_object::remove_leftovers(config_.pool.name_prefix);
  auto options = memory_options(config_, self_);
  options.group = group_;
  if (config_.pool.keep) {
    auto left = storage::pool_memory::take_over(options);
    auto why = left ? error{} : left.error();
    if (left) {
      auto remains = storage::survey(left->slots());
      const auto cut_off = cut_devices_off(*left, remains);
      if (cut_off) {
        log::info("pool: the process before has left {} pages; they are compared with their "
                  "checksums",
                  remains.pages);
        memory_ = std::move(*left);
        memory_->outlive(true); // The pages stay, should this start fail.
        remains_ = std::move(remains);
        return {};
      }
      why = cut_off.error();
    }
    if (why.code != errc::not_found)
      log::warn("pool: the pages of the process before are lost: {}", to_string(why));
  }
  auto made = storage::pool_memory::create(options);
  if (!made)
    return made.error();
  memory_ = std::move(*made);
  return {};
}

/// Takes in the life record of the process that had this pool previously.
void node::impl::recall_last_life() {
  const auto note = memory_->note().read();
  if (note && note->empty())
    return;
  byte_reader in(note.value_or(""));
  const auto life = read_record(in);
  cleared_.recall(in.finished() ? life : record_of_unknown());
}

namespace {

error port_fault(const std::string& host, std::uint16_t port, const char* option) {
  return {errc::io_failed, "cannot listen on " + host + ":" + std::to_string(port) + " (" + option +
                               "): another process has the port, or the address is not this "
                               "machine's; `ss -ltnp` shows who listens"};
}

} // namespace

/// Binds the ports without listening, before the pool is touched, which takes seconds. Listening
/// begins when connections can be answered, so that nobody is kept waiting.
result<void> node::impl::hold_ports() {
  struct wanted {
    const std::string& host;
    std::uint16_t port;
    const char* option;
  };
  const auto& net = config_.net;
  for (const auto& [host, port, option] :
       {wanted{net.bind, net.control_port, "net.control_port"},
        wanted{net.bind, net.data_port, "net.data_port"},
        wanted{net.bind, net.lookup_port, "net.lookup_port"},
        wanted{config_.metrics.bind, config_.metrics.enabled ? net.http_port : std::uint16_t{0},
               "net.http_port"}}) {
    if (port == 0)
      continue;
    auto address = net::resolve_host(host);
    auto held = address ? net::hold_port(*address, port) : address.error();
    if (!held)
      return port_fault(host, port, option);
    held_ports_.push_back(std::move(*held));
  }
  return {};
}

result<caf::io::doorman_ptr> node::impl::listen(std::uint16_t port, const char* option,
                                                net::tls_peers members) {
  auto doorman = link::new_doorman(*system_, config_.net.bind, port, members);
  if (doorman)
    return std::move(*doorman);
  return port_fault(config_.net.bind, port, option);
}

result<std::unique_ptr<rdma::rail_servers>>
node::impl::open_rails(const rdma::rail_choice& choice) {
  rdma::verbs_server_options options;
  options.cluster = config_.cluster.name;
  options.inc = self_.inc;
  options.node = self_.name;
  options.chunk_bytes = config_.rdma.chunk_bytes;
  options.send_timeout = config_.data.send_timeout;
  const auto slots = memory_->slots();
  const rdma::served_region pool{memory_->readable_region(), slots.bytes(slot_id{0}, 1).data(),
                                 memory_->granules()};
  return rdma::rail_servers::open(choice, rails_of(config_), options, pool);
}

result<void> node::impl::open_ports() {
  // The page server sends from the memory and hands connections over to the rails.
  PEERCACHE_ASSERT(memory_ && rails_ && !pages_);
  held_ports_.clear();
  rdma::tcp_page_server_options options;
  options.host = config_.net.bind;
  options.port = config_.net.data_port;
  options.cluster = config_.cluster.name;
  options.inc = self_.inc;
  options.send_timeout = config_.data.send_timeout;
  auto handshakes = link::handshakes_of(*system_);
  if (!handshakes)
    return handshakes.error();
  options.handshakes = *handshakes;
  options.pages_in_tls = pages_in_tls();
  if (decorators_.pages)
    decorators_.pages(options.faults);
  if (rails_->rails() > 0)
    options.on_verbs_hello = [rails = rails_.get()](net::stream_socket socket,
                                                    const rdma::verbs_hello& greeting,
                                                    auto came_at) {
      rails->accept(std::move(socket), greeting, came_at);
    };
  auto pages = page_server::listen(options, memory_->slots());
  if (!pages)
    return pages.error();
  pages_ = std::move(*pages);
  self_.data_port = pages_->port();
  if (auto opened = open_http(); !opened)
    return opened;
  auto control =
      listen(config_.net.control_port, "net.control_port", net::tls_peers::nodes_and_operators);
  if (!control)
    return control.error();
  doorman_ = std::move(*control);
  auto lookups =
      lookup_server::listen({config_.net.bind, config_.net.lookup_port, config_.cluster.name,
                             self_.inc, *handshakes, config_.net.lookup_datagrams});
  if (!lookups)
    return port_fault(config_.net.bind, config_.net.lookup_port, "net.lookup_port");
  lookups_ = std::move(*lookups);
  self_.lookup_port = lookups_->port();
  self_.control_port = doorman_->port();
  return open_host_socket();
}

void node::impl::drain() {
  auto until = std::chrono::steady_clock::now() + config_.drain.timeout;
  *stopping_at_ = "writing pages to disk, giving records and withdrawals to other nodes";
  caf::anon_send(clearing_, drain_atom_v, from_here{});
  caf::scoped_actor self{*system_};
  self->request(gateway_, config_.drain.timeout, drain_atom_v)
      .receive([](bool) {},
               [&](const caf::error& why) {
                 log::warn("drain: not in good order: {}", system_->render(why));
               });
  *stopping_at_ = "waiting for readers and for what is to be on disk";
  // The directory no longer names pages of this node: waits until readers have the rest of their
  // bytes and the disk has the pages that it was given.
  const auto busy = [this] {
    return pages_->latest().pinned_bytes > 0 || disk_->gate().bytes() > 0;
  };
  while (busy() && std::chrono::steady_clock::now() < until)
    self->receive([](const caf::unit_t&) {}, caf::after(100ms) >> [] {});
}

/// Stops the node's threads. Afterwards no other host reads pages of this node.
void node::impl::stop_threads() {
  *stopping_at_ = "comparing the pages of the process before";
  if (adoption_thread_) {
    stop_adoption_ = true;
    wait_for_thread_actor(*system_, adoption_thread_);
    adoption_thread_ = nullptr;
  }
  *stopping_at_ = "stopping the page server";
  if (pages_ && page_thread_) {
    pages_->stop();
    wait_for_thread_actor(*system_, page_thread_);
    pages_->close();
  }
  *stopping_at_ = "waiting for what the disk has begun";
  if (disk_thread_) {
    disk_->stop();
    wait_for_thread_actor(*system_, disk_thread_);
  }
  *stopping_at_ = "stopping RDMA and HTTP";
  rails_->stop();
  for (auto& thread : rail_threads_)
    wait_for_thread_actor(*system_, thread);
  rail_threads_.clear();
  if (http_ && http_thread_) {
    http_->stop();
    wait_for_thread_actor(*system_, http_thread_);
  }
}

void node::impl::end_actors() {
  *stopping_at_ = "ending the actors";
  if (lookup_thread_) {
    lookups_->stop();
    wait_for_thread_actor(*system_, lookup_thread_);
  }
  lookups_.reset(); // From here on the port refuses connections.
  each_actor([](const auto& one, const char*) {
    caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  });
  {
    // The pool's memory may be unmapped only when the last actor that uses it is gone, and so may
    // the shard's, and the rails that serve it.
    caf::scoped_actor self{*system_};
    each_actor([&self](const auto& one, const char*) { self->wait_for(one); });
  }
  board_->ask_for_key = {}; // The function holds the overview, which holds the board.
  board_->ask_for_overlap = {};
  board_->look = {};
  board_->want_numbers = {};
  each_actor([](auto& one, const char*) { one = nullptr; });
  rails_.reset();   // The rails serve the shard's memory.
  shard_ = nullptr; // The shard's topology has handles.
  shard_object_.reset();
  page_thread_ = lookup_thread_ = http_thread_ = disk_thread_ = nullptr;
}

void node::impl::stop() {
  if (stopped_ || !system_)
    return;
  stopped_ = true;
  supervision_.expect_ends();
  stop_threads();
  if (clearing_) {
    // The goodbye tells the other nodes that clears need not wait for this node.
    *stopping_at_ = "saying goodbye";
    caf::scoped_actor self{*system_};
    self->request(clearing_, 1s, leave_atom_v, from_here{})
        .receive([](bool) {}, [](const caf::error&) {});
  }
  end_actors();
  *stopping_at_ = "closing connections";
  system_->await_actors_before_shutdown(false);
  host_socket_.reset();
  system_.reset();
}

node::node(std::unique_ptr<impl> body) : impl_(std::move(body)) {}

node::~node() {
  if (!impl_->home().is_here())
    (void)impl_.release(); // In a forked child, threads, pool and ports are the parent's.
}

result<std::unique_ptr<node>> node::start(const config::node_config& config,
                                          const node_decorators& decorators) {
  auto body = std::make_unique<impl>(config, decorators);
  auto started = body->start();
  leave_actor_system();
  if (!started)
    return started.error();
  return std::unique_ptr<node>{new node{std::move(body)}};
}

const discovery::member& node::self() const noexcept {
  return impl_->self();
}

bool node::ready() const {
  return impl_->ready();
}

std::string node::failure() const {
  return impl_->failure();
}

void node::when_failed(std::function<void()> act) {
  impl_->when_failed(std::move(act));
}

bool node::read_certificates_again() {
  return impl_->read_certificates_again();
}

void node::drain_and_stop(pool_after after) {
  impl_->drain();
  impl_->stop();
  if (after == pool_after::kept)
    impl_->keep_pool();
}

std::shared_ptr<const std::atomic<const char*>> node::stopping_at() const noexcept {
  return impl_->stopping_at();
}

} // namespace peercache::actors
