#include "actors/link_names.hpp"
#include "actors/node/node_impl.hpp"

#include "actors/clearing/clearing_actor.hpp"
#include "actors/directory/directory_actor.hpp"
#include "actors/directory/directory_door.hpp"
#include "actors/disk/disk_actor.hpp"
#include "actors/disk/promoter_actor.hpp"
#include "actors/gateway/gateway_actor.hpp"
#include "actors/membership/membership_actor.hpp"
#include "actors/node/node_options.hpp"
#include "actors/pool/pool_actor.hpp"
#include "common/assert.hpp"
#include "discovery/view_codec.hpp"
#include "link/connector_actor.hpp"
#include "link/thread_actor.hpp"
#include "net/socket.hpp"

#include <caf/io/basp_broker.hpp>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>
#include <set>

namespace peercache::actors {

using namespace std::chrono_literals;

void node::impl::spawn_actors() {
  auto& system = *system_;
  page_thread_ =
      spawn_thread_actor(system, "peercache-pages", [server = pages_.get()] { server->run(); });
  spawn_rails();
  connector_ = system.spawn(run_connector, 300ms, std::nullopt);
  spawn_directory();
  let_rails_read_shard();
  spawn_pool();

  // Gateway, membership and links need each other's handles. The links get the node's own handles
  // when all actors exist; until then membership has no beat and does nothing.
  auto own = std::make_shared<peer>();
  spawn_clearing(own);
  links_options links;
  links.cluster = config_.cluster.name;
  links.own_name = self_.name;
  links.connector = connector_;
  // These two handles are null until all actors exist, and for ever without an HTTP port.
  auto metrics = std::make_shared<metrics_actor>();
  auto overview = std::make_shared<overview_actor>();
  spawn_overlap();
  links.publish = [directory = directory_, shard = shard_, clearing = clearing_, overlap = overlap_,
                   own, metrics, overview](const topology_ptr& next) {
    // The pool, to which the clearing actor passes the topology on, asks the directory by it.
    tell_directory(directory, *shard, next);
    caf::anon_send(clearing, topology_atom_v, next);
    caf::anon_send(own->gateway, topology_atom_v, next);
    caf::anon_send(overlap, topology_atom_v, next);
    if (*metrics)
      caf::anon_send(*metrics, topology_atom_v, next);
    if (*overview)
      caf::anon_send(*overview, topology_atom_v, next);
  };
  links.self = own;
  links_ = system.spawn(run_links, std::move(links));

  spawn_membership(own);
  spawn_gateway(*own);
  spawn_lookups();
  if (http_)
    spawn_metrics();
  *metrics = metrics_;
  *overview = overview_;
  supervise();
  caf::anon_send(membership_, beat_atom_v, from_here{});
}

void node::impl::spawn_directory() {
  directory_options directory;
  directory.self = self_.id;
  directory.replicas = config_.directory.replicas;
  directory.records_max = config_.directory.records_max;
  directory.epochs = memory_->epochs();
  directory.file = share_shard();
  shard_ = make_shard(directory);
  if (shard_object_ && shard_->lock()->records().memory().shared_units() == 0) {
    log::warn("directory: /dev/shm is full, so clients of this host ask this node instead of "
              "reading its shard");
    shard_object_.reset();
  }
  directory_ = system_->spawn(run_directory, directory, shard_);
  door_ = spawn_directory_door(*system_, {shard_, directory_});
}

/// Watches all actors and threads of the node. An end before this call is noticed, too.
void node::impl::supervise() {
  PEERCACHE_ASSERT(gateway_ && page_thread_); // The actors are spawned already.
  using kind = supervision::kind;
  const auto watch = [this](const auto& actor, const char* name, kind how = kind::lasting) {
    if (actor)
      supervision_.watch(caf::actor_cast<caf::strong_actor_ptr>(actor), name, how);
  };
  watch(page_thread_, "the page server");
  watch(disk_thread_, "the disk's thread");
  watch(http_thread_, "the HTTP server");
  watch(adoption_thread_, "the adoption", kind::passing);
  for (const auto& rail : rail_threads_)
    watch(rail, "a thread of the rails",
          kind::passing); // A rail's thread that only registers memory returns.
  watch(lookup_thread_, "the look-up server");
  each_actor([&watch](const auto& one, const char* name) { watch(one, name); });
  watch(system_->middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP")), "BASP");
}

void node::impl::spawn_pool() {
  auto& system = *system_;
  pool_actor_options pool;
  pool.self = self_.id;
  pool.inc = self_.inc;
  pool.replicas = config_.directory.replicas;
  pool.republish_rate = config_.directory.republish_rate;
  pool.repair_rate = config_.directory.repair_rate;
  pool.mirrored_bytes_max = static_cast<std::uint64_t>(static_cast<double>(memory_->page_bytes()) *
                                                       config_.pool.mirror_share);
  pool.epochs = memory_->epochs();
  pool.shard = shard_;
  if (disk_->on()) {
    pool.disk.gate = &disk_->gate();
    pool.disk.slots = memory_->slots();
    pool.disk.write_through = config_.disk.policy == config::disk_policy::write_through;
  }
  auto pages = make_pool(config_, *memory_);
  if (remains_) {
    pages->claim(*remains_);
    for (const auto& extent : remains_->extents)
      if (extent.as == storage::claimed_extent::use::being_filled)
        pool.adoption.being_filled.push_back(extent.slot);
    pool.adoption.former_clients_are_dead = [memory = &*memory_] {
      return memory->former_clients_are_dead();
    };
  }
  pool_ = system.spawn(run_pool, pool, std::move(pages));
  spawn_adoption();
  disk_actor_ = system.spawn(run_disk_actor, disk_.get(), pool_);
  if (!disk_->on())
    return;
  caf::anon_send(pool_, hello_atom_v, disk_actor_, from_here{});
  promoter_options promotes;
  promotes.pool = pool_;
  promotes.disk = disk_actor_;
  promotes.bytes_max = std::min(config_.disk.promote_bytes, config_.pool.size_bytes / 4);
  promotes.warm = config_.disk.warm;
  promoter_ = system.spawn(run_promoter, promotes);
  disk_thread_ =
      spawn_thread_actor(system, "peercache-disk", [disk = disk_.get(), actor = disk_actor_] {
        disk->run([&](disk_turn_ptr turn) { caf::anon_send(actor, turn_atom_v, std::move(turn)); });
      });
}

void node::impl::spawn_adoption() {
  if (!remains_)
    return;
  auto remains = std::make_shared<const storage::pool_remains>(std::move(*remains_));
  remains_.reset();
  adoption_thread_ =
      spawn_thread_actor(*system_, "peercache-adopt",
                         [remains, slots = memory_->slots(), pool = pool_, stop = &stop_adoption_] {
                           storage::remains_check check(slots, remains->extents);
                           compare_remains(check, *stop, [&pool](std::string compared) {
                             caf::anon_send(pool, adopt_atom_v, std::move(compared), from_here{});
                           });
                         });
}

void node::impl::spawn_membership(const std::shared_ptr<peer>& own) {
  PEERCACHE_ASSERT(connector_ && links_ && directory_ && pool_); // The handles are copied here.
  membership_actor_options membership;
  membership.machine = machine_options(config_, seeds_);
  if (!seeds_.lacking.empty())
    membership.names =
        std::make_shared<seed_names>(std::move(seeds_.lacking), net::resolve_host, names_pause);
  membership.self = self_;
  membership.cluster = config_.cluster.name;
  membership.speaks += decorators_.speaks_newer;
  membership.connector = connector_;
  membership.links = links_;
  membership.on_expelled = [directory = directory_,
                            shard = shard_](const discovery::view& without) {
    tell_directory_to_leave(directory, *shard, without);
  };
  membership.on_rejoined = [pool = pool_] { caf::anon_send(pool, publish_atom_v, from_here{}); };
  membership.on_outside = [own](const std::string& why) {
    caf::anon_send(own->gateway, outside_atom_v, why, from_here{});
  };
  membership_ = system_->spawn(run_membership, std::move(membership));
}

void node::impl::spawn_clearing(const std::shared_ptr<peer>& own) {
  PEERCACHE_ASSERT(pool_ && disk_actor_ && memory_);
  clearing_options options;
  options.epochs_changed = [shard = shard_, directory = directory_] {
    shard->forbid_remote_reads();
    caf::anon_send(directory, clear_atom_v, from_here{});
  };
  left_behind_ = cleared_.awaited();
  options.spaces = std::move(cleared_);
  options.self = self_.inc;
  options.pool = pool_;
  options.disk = disk_actor_;
  options.caught_up = [caught_up = caught_up_, own] {
    caught_up->store(true);
    caf::anon_send(own->gateway, tell_atom_v, from_here{});
  };
  options.note = [memory = &*memory_](const life_record& life) {
    memory->note().write(encode_record(life, storage::pool_note::bytes_max));
  };
  options.keep_at_end = [disk = disk_.get()](const std::string& encoded) {
    return disk->keep_cleared_at_end(encoded);
  };
  options.unix_seconds = [] { return static_cast<std::uint64_t>(std::time(nullptr)); };
  clearing_ = system_->spawn(run_clearing, std::move(options));
}

/// Lets clients of this host look keys up in the memory of this node's shard. Returns the file for
/// it; negative: they ask this node.
int node::impl::share_shard() {
  auto made = directory::shard_object::create(
      memory_->name(), directory::shard::units_for(config_.directory.records_max), group_);
  if (!made) {
    log::warn("directory: clients of this host ask this node instead of reading its shard: {}",
              to_string(made.error()));
    return -1;
  }
  shard_object_.emplace(std::move(*made));
  return shard_object_->file();
}

/// Lets other hosts look keys up in the memory of this node's shard.
void node::impl::let_rails_read_shard() {
  if (rails_->rails() == 0)
    return;
  shard_->lock()->records().memory().on_grown([rails = rails_.get()](std::span<std::byte> piece) {
    if (auto added = rails->add_area(piece); !added)
      log::warn(
          "directory: {} bytes of the shard are not readable over a rail until the shard grows "
          "again; if they are its first bytes, the whole shard is not. Other hosts ask for "
          "what lies there. {}",
          piece.size(), to_string(added.error()));
  });
}

void node::impl::spawn_rails() {
  if (rails_->rails() == 0)
    return;
  for (std::size_t i = 0; i < rails_->rails(); ++i)
    rail_threads_.push_back(spawn_thread_actor(*system_, "peercache-rail",
                                               [rails = rails_.get(), i] { rails->run(i); }));
  for (std::uint32_t i = 0; i < config_.rdma.registration_threads; ++i)
    rail_threads_.push_back(spawn_thread_actor(
        *system_, "peercache-rdma", [rails = rails_.get()] { rails->register_region(); }));
}

void node::impl::spawn_gateway(peer& own) {
  PEERCACHE_ASSERT(directory_ && membership_ && pool_ && disk_actor_ && clearing_);
  PEERCACHE_ASSERT(static_cast<bool>(promoter_) ==
                   disk_->on()); // There is a promoter exactly when there is a disk tier.
  gateway_options options;
  options.cluster = config_.cluster.name;
  options.version = decorators_.version.empty() ? PEERCACHE_VERSION : decorators_.version;
  options.data_plane = rails_->choice();
  options.pool_name = memory_->name();
  options.lookup_port = self_.lookup_port;
  options.directory_replicas = config_.directory.replicas;
  options.mirror = static_cast<std::uint8_t>(config_.pool.mirror);
  options.drain_timeout = config_.drain.timeout;
  options.hand_over_timeout = config_.drain.timeout / 2;
  options.vote_timeout = vote_limit(config_);
  options.self = self_;
  options.directory = directory_;
  options.door = door_;
  options.membership = membership_;
  options.pool = pool_;
  options.disk = disk_actor_;
  options.promoter = promoter_;
  options.clearing = clearing_;
  options.links = links_;
  options.overlap = overlap_;
  options.common_options = common_options(config_);
  options.tls = tls_ != nullptr;
  options.insecure = is_insecure();
  options.caught_up = [caught_up = caught_up_] { return caught_up->load(); };
  options.left_behind = left_behind_;
  options.disk_scanned = [disk = disk_.get()] { return disk->scanned(); };
  options.session_is_dead = [memory = &*memory_](std::uint32_t index) {
    return memory->session_is_dead(index);
  };
  options.session_is_held = [memory = &*memory_](std::uint32_t index) {
    return memory->session_is_held(index);
  };
  options.history = [board = board_](std::uint64_t after_point, std::uint64_t after_event) {
    return remembered_after(*board->own_history.load(), after_point, after_event);
  };
  options.pool_fault = [memory = &*memory_] {
    const auto checked = memory->check_object();
    return checked ? std::string{} : checked.error().message;
  };
  options.ready = [board = board_](bool now, const std::string& reason) {
    board->ready.store({now, reason});
  };
  gateway_ = system_->spawn(run_gateway, std::move(options));
  // `own` must be complete before anybody can reach an actor that uses it.
  own.self = self_;
  own.gateway = gateway_;
  own.directory = directory_;
  own.membership = membership_;
  auto basp = system_->middleman().named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  for (auto* doorman : {&doorman_, &host_doorman_})
    if (*doorman != nullptr)
      caf::anon_send(basp, caf::publish_atom_v, std::move(*doorman), self_.control_port,
                     caf::actor_cast<caf::strong_actor_ptr>(gateway_), std::set<std::string>{});
}

void node::impl::spawn_lookups() {
  PEERCACHE_ASSERT(directory_ && gateway_ && lookups_); // The handles are copied here.
  lookup_relay_ = system_->spawn(run_lookup_relay,
                                 lookup_relay_options{directory_, gateway_, lookups_->answers()});
  lookup_services services;
  services.shard = shard_;
  services.held = held_pool{memory_->slots(), memory_->holds()};
  services.pass_on = [relay = lookup_relay_](std::uint64_t ticket, link::member_question kind,
                                             std::string body) {
    caf::anon_send(relay, tell_atom_v, ticket, static_cast<std::uint8_t>(kind), std::move(body),
                   from_here{});
  };
  lookup_thread_ = spawn_thread_actor(
      *system_, "peercache-asked", [server = lookups_.get(), services] { server->run(services); });
}

std::size_t node::discard_pools(const config::node_config& config) {
  directory::shard_object::remove_leftovers(config.pool.name_prefix);
  return storage::pool_memory::remove_leftovers(memory_options(config, {}));
}

} // namespace peercache::actors
