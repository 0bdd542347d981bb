#include "actors/node.hpp"

#include "actors/connector_actor.hpp"
#include "actors/directory_actor.hpp"
#include "actors/disk_service.hpp"
#include "actors/disk_writer_actor.hpp"
#include "actors/gateway_actor.hpp"
#include "actors/links_actor.hpp"
#include "actors/lookup_broker.hpp"
#include "actors/membership_actor.hpp"
#include "actors/metrics_actor.hpp"
#include "actors/node_options.hpp"
#include "actors/page_server.hpp"
#include "actors/pool_actor.hpp"
#include "actors/promoter_actor.hpp"
#include "actors/rail_service.hpp"
#include "actors/rail_settings.hpp"
#include "actors/system_config.hpp"
#include "actors/thread_actor.hpp"
#include "common/guards.hpp"
#include "common/log.hpp"
#include "discovery/view_codec.hpp"
#include "metrics/http_server.hpp"
#include "rdma/socket.hpp"
#include "storage/pool_memory.hpp"

#include <caf/io/basp_broker.hpp>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <thread>

namespace peercache::actors {

using namespace std::chrono_literals;

class node::impl {
public:
  explicit impl(const config::node_config& config) : config_(config) {}
  ~impl() { stop(); }

  result<void> start();
  void drain();
  void stop();
  const discovery::member& self() const noexcept { return self_; }
  bool ready() const { return board_->ready.load()->ready; }

private:
  result<void> open_ports();
  result<caf::io::doorman_ptr> listen(std::uint16_t port, const char* option);
  void spawn_actors();
  void spawn_rails();
  void spawn_pool();
  void spawn_membership();
  void spawn_gateway();
  void spawn_metrics();

  const config::node_config config_;
  discovery::member self_;
  std::vector<discovery::endpoint> seeds_;
  std::optional<storage::pool_memory> memory_;
  std::unique_ptr<disk_service> disk_;
  std::unique_ptr<rail_service> rails_; ///< Before the page server, which hands over to it.
  std::unique_ptr<page_server> pages_;
  std::shared_ptr<http_board> board_ = std::make_shared<http_board>();
  std::unique_ptr<metrics::http_server> http_;
  std::unique_ptr<system_config> caf_config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::io::doorman_ptr doorman_, lookup_doorman_;
  std::uint16_t lookup_port_ = 0;
  caf::actor lookups_;
  connector_actor connector_;
  directory_actor directory_;
  links_actor links_;
  membership_actor membership_;
  pool_actor pool_;
  disk_writer_actor disk_writer_;
  promoter_actor promoter_;
  gateway_actor gateway_;
  metrics_actor metrics_;
  caf::actor page_thread_, http_thread_, disk_thread_;
  std::vector<caf::actor> rail_threads_;
  bool stopped_ = false;
};

result<void> node::impl::start() {
  self_.name = config_.node.name;
  self_.id = node_id_of(self_.name);
  self_.inc = incarnation::random();
  auto advertised = rdma::resolve_host(config_.net.advertise);
  if (!advertised)
    return error{advertised.error().code, "net.advertise: " + advertised.error().message};
  self_.host = std::move(*advertised);
  auto seeds = resolve_seeds(config_.discovery.seeds);
  if (!seeds)
    return seeds.error();
  seeds_ = std::move(*seeds);
  auto choice = rdma::choose_rails(rails_of(config_));
  if (!choice)
    return choice.error();
  log::info("data plane: {}", choice->why);
  auto memory = storage::pool_memory::create(memory_options(config_, self_));
  if (!memory)
    return memory.error();
  memory_ = std::move(*memory);
  disk_ = disk_service::open(config_, self_, *memory_);
  auto rails = rail_service::open(*choice, config_, self_, *memory_);
  if (!rails)
    return rails.error();
  rails_ = std::move(*rails);
  self_.rails = static_cast<std::uint8_t>(rails_->rails());
  caf_config_ = std::make_unique<system_config>(config_.actors.threads);
  system_ = std::make_unique<caf::actor_system>(*caf_config_);
  if (auto opened = open_ports(); !opened)
    return opened;
  spawn_actors();
  return {};
}

namespace {

/// None in a program that users run: see common/guards.hpp.
rdma::tcp_server_faults faults_of_tests() {
  rdma::tcp_server_faults faults;
  faults.flip_byte_one_in = fault_setting(fault::flip_byte_one_in);
  faults.send_chunk_bytes = fault_setting(fault::send_chunk_bytes);
  if (auto pause_us = fault_setting(fault::send_pause_us); pause_us != 0)
    faults.between_chunks = [pause_us] {
      std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
    };
  return faults;
}

} // namespace

result<caf::io::doorman_ptr> node::impl::listen(std::uint16_t port, const char* option) {
  auto doorman =
      system_->middleman().backend().new_tcp_doorman(port, config_.net.bind.c_str(), true);
  if (doorman)
    return std::move(*doorman);
  return {errc::io_failed, "cannot listen on " + config_.net.bind + ":" + std::to_string(port) +
                               " (" + option +
                               "): another process has the port, or the address is not this "
                               "machine's; `ss -ltnp` shows who listens"};
}

result<void> node::impl::open_ports() {
  rdma::tcp_page_server_options options;
  options.host = config_.net.bind;
  options.port = config_.net.data_port;
  options.cluster = config_.cluster.name;
  options.inc = self_.inc;
  options.send_timeout = config_.data.send_timeout;
  options.faults = faults_of_tests();
  if (rails_->rails() > 0)
    options.on_verbs_hello = [rails = rails_.get()](rdma::unique_fd socket,
                                                    const rdma::verbs_hello& greeting) {
      rails->hand_over(std::move(socket), greeting);
    };
  auto pages = page_server::listen(options, memory_->slots());
  if (!pages)
    return pages.error();
  pages_ = std::move(*pages);
  self_.data_port = pages_->port();
  if (config_.metrics.enabled) {
    metrics::http_content content{[board = board_] { return *board->text.load(); },
                                  [board = board_] { return *board->ready.load(); },
                                  [board = board_] { return *board->status.load(); }};
    metrics::http_options http;
    http.host = config_.metrics.bind;
    http.port = config_.net.http_port;
    auto server = metrics::http_server::listen(http, std::move(content));
    if (!server)
      return server.error();
    http_ = std::move(*server);
    self_.http_port = http_->port();
  }
  auto control = listen(config_.net.control_port, "net.control_port");
  if (!control)
    return control.error();
  doorman_ = std::move(*control);
  auto lookups = listen(config_.net.lookup_port, "net.lookup_port");
  if (!lookups)
    return lookups.error();
  lookup_doorman_ = std::move(*lookups);
  lookup_port_ = lookup_doorman_->port();
  self_.control_port = doorman_->port();
  return {};
}

void node::impl::spawn_actors() {
  auto& system = *system_;
  page_thread_ = spawn_thread_actor(system, [server = pages_.get()] { server->run(); });
  spawn_rails();
  connector_ = system.spawn(run_connector, 300ms);
  directory_options directory;
  directory.self = self_.id;
  directory.replicas = config_.directory.replicas;
  directory_ = system.spawn(run_directory, directory);
  lookup_broker_options lookups;
  lookups.cluster = config_.cluster.name;
  lookups.inc = self_.inc;
  lookups.directory = directory_;
  lookups.doorman = std::move(lookup_doorman_);
  lookups_ = system.middleman().spawn_broker(run_lookup_broker, std::move(lookups));
  spawn_pool();

  // Gateway, membership and links know each other: the links get the node's own handles when all
  // are there, and nothing moves before membership's first beat.
  auto own = std::make_shared<peer>();
  links_options links;
  links.cluster = config_.cluster.name;
  links.own_name = self_.name;
  links.connector = connector_;
  links.publish = [directory = directory_, pool = pool_, own](const topology_ptr& next) {
    caf::anon_send(directory, topology_atom_v, next);
    caf::anon_send(pool, topology_atom_v, next);
    caf::anon_send(own->gateway, topology_atom_v, next);
  };
  links.self = own;
  links_ = system.spawn(run_links, std::move(links));

  spawn_membership();
  spawn_gateway();
  own->self = self_;
  own->gateway = gateway_;
  own->directory = directory_;
  own->membership = membership_;
  if (http_)
    spawn_metrics();
  caf::anon_send(membership_, beat_atom_v);
}

void node::impl::spawn_pool() {
  auto& system = *system_;
  pool_actor_options pool;
  pool.self = self_.id;
  pool.inc = self_.inc;
  pool.replicas = config_.directory.replicas;
  if (disk_->on()) {
    pool.disk.gate = &disk_->gate();
    pool.disk.slots = memory_->slots();
    pool.disk.write_through = config_.disk.policy == config::disk_policy::write_through;
  }
  pool_ = system.spawn(run_pool, pool, make_pool(config_, *memory_));
  disk_writer_ = system.spawn(run_disk_writer, disk_.get(), pool_);
  if (!disk_->on())
    return;
  caf::anon_send(pool_, hello_atom_v, disk_writer_);
  promoter_options promotes;
  promotes.pool = pool_;
  promotes.disk = disk_writer_;
  promotes.bytes_max = std::min(config_.disk.promote_bytes, config_.pool.size_bytes / 4);
  promotes.warm = config_.disk.warm;
  promoter_ = system.spawn(run_promoter, promotes);
  disk_thread_ = spawn_thread_actor(system, [disk = disk_.get(), actor = disk_writer_] {
    disk->run([&](disk_turn_ptr turn) { caf::anon_send(actor, turn_atom_v, std::move(turn)); });
  });
}

void node::impl::spawn_membership() {
  membership_actor_options membership;
  membership.machine = machine_options(config_, seeds_);
  membership.self = self_;
  membership.cluster = config_.cluster.name;
  membership.connector = connector_;
  membership.links = links_;
  membership.on_expelled = [directory = directory_](const discovery::view& without) {
    caf::anon_send(directory, leave_atom_v, discovery::encode_view(without));
  };
  membership.on_rejoined = [pool = pool_] { caf::anon_send(pool, publish_atom_v); };
  membership_ = system_->spawn(run_membership, std::move(membership));
}

void node::impl::spawn_rails() {
  if (rails_->rails() == 0)
    return;
  for (std::size_t i = 0; i < rails_->rails(); ++i)
    rail_threads_.push_back(
        spawn_thread_actor(*system_, [rails = rails_.get(), i] { rails->run(i); }));
  for (std::uint32_t i = 0; i < config_.rdma.registration_threads; ++i)
    rail_threads_.push_back(
        spawn_thread_actor(*system_, [rails = rails_.get()] { rails->register_pool(); }));
}

void node::impl::spawn_gateway() {
  gateway_options options;
  options.cluster = config_.cluster.name;
  options.version = PEERCACHE_VERSION;
  options.data_plane = rails_->choice();
  options.pool_name = memory_->name();
  options.lookup_port = lookup_port_;
  options.self = self_;
  options.directory = directory_;
  options.membership = membership_;
  options.pool = pool_;
  options.disk = disk_writer_;
  options.promoter = promoter_;
  options.disk_scanned = [disk = disk_.get()] { return disk->scanned(); };
  options.session_is_dead = [memory = &*memory_](std::uint32_t index) {
    return memory->session_is_dead(index);
  };
  options.ready = [board = board_](bool now, const std::string& reason) {
    board->ready.store({now, reason});
  };
  gateway_ = system_->spawn(run_gateway, std::move(options));
  auto basp = system_->middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  caf::anon_send(basp, caf::publish_atom_v, std::move(doorman_), self_.control_port,
                 caf::actor_cast<caf::strong_actor_ptr>(gateway_), std::set<std::string>{});
}

void node::impl::spawn_metrics() {
  metrics_options options;
  options.gateway = gateway_;
  options.page_server_stats = [server = pages_.get()] { return server->latest(); };
  options.rail_stats = [rails = rails_.get()] { return rails->latest(); };
  options.board = board_;
  metrics_ = system_->spawn(run_metrics, std::move(options));
  http_thread_ = spawn_thread_actor(*system_, [server = http_.get()] { server->run(); });
}

void node::impl::drain() {
  auto until = std::chrono::steady_clock::now() + config_.drain.timeout;
  caf::scoped_actor self{*system_};
  self->request(gateway_, config_.drain.timeout, drain_atom_v)
      .receive([](bool) {},
               [&](const caf::error& why) {
                 log::warn("drain: not in good order: {}", system_->render(why));
               });
  // Nobody finds our pages any more; who is still reading gets the rest of its bytes.
  // What is to be on disk goes there.
  const auto busy = [this] {
    return pages_->latest().pinned_bytes > 0 || disk_->report().queue_pages > 0;
  };
  while (busy() && std::chrono::steady_clock::now() < until)
    self->receive([](caf::unit_t) {}, caf::after(100ms) >> [] {});
}

void node::impl::stop() {
  if (stopped_ || !system_)
    return;
  stopped_ = true;
  if (pages_ && page_thread_) {
    pages_->stop();
    wait_for_thread_actor(*system_, page_thread_);
  }
  if (disk_thread_) {
    disk_->stop();
    wait_for_thread_actor(*system_, disk_thread_);
  }
  rails_->stop();
  for (auto& thread : rail_threads_)
    wait_for_thread_actor(*system_, thread);
  rail_threads_.clear();
  if (http_ && http_thread_) {
    http_->stop();
    wait_for_thread_actor(*system_, http_thread_);
  }
  for (auto address : {caf::actor_cast<caf::strong_actor_ptr>(lookups_),
                       caf::actor_cast<caf::strong_actor_ptr>(metrics_),
                       caf::actor_cast<caf::strong_actor_ptr>(gateway_),
                       caf::actor_cast<caf::strong_actor_ptr>(membership_),
                       caf::actor_cast<caf::strong_actor_ptr>(links_),
                       caf::actor_cast<caf::strong_actor_ptr>(directory_),
                       caf::actor_cast<caf::strong_actor_ptr>(connector_),
                       caf::actor_cast<caf::strong_actor_ptr>(promoter_),
                       caf::actor_cast<caf::strong_actor_ptr>(disk_writer_),
                       caf::actor_cast<caf::strong_actor_ptr>(pool_)})
    if (address)
      caf::anon_send_exit(address, caf::exit_reason::user_shutdown);
  {
    // The pool's memory goes when its last user is gone.
    caf::scoped_actor self{*system_};
    if (pool_)
      self->wait_for(pool_);
    if (gateway_)
      self->wait_for(gateway_);
  }
  metrics_ = nullptr;
  lookups_ = nullptr;
  gateway_ = nullptr;
  membership_ = nullptr;
  links_ = nullptr;
  directory_ = nullptr;
  connector_ = nullptr;
  promoter_ = nullptr;
  disk_writer_ = nullptr;
  pool_ = nullptr;
  page_thread_ = http_thread_ = disk_thread_ = nullptr;
  system_->await_actors_before_shutdown(false);
  system_.reset();
}

node::node(std::unique_ptr<impl> body) : impl_(std::move(body)) {}
node::~node() = default;

result<std::unique_ptr<node>> node::start(const config::node_config& config) {
  auto body = std::make_unique<impl>(config);
  if (auto started = body->start(); !started)
    return started.error();
  return std::unique_ptr<node>{new node{std::move(body)}};
}

const discovery::member& node::self() const noexcept {
  return impl_->self();
}

bool node::ready() const {
  return impl_->ready();
}

void node::drain_and_stop() {
  impl_->drain();
  impl_->stop();
}

} // namespace peercache::actors
