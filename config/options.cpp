#include "config/options.hpp"

#include "common/limits.hpp"
#include "config/directory_options.hpp"
#include "config/disk_options.hpp"
#include "config/metrics_options.hpp"
#include "config/net_options.hpp"
#include "config/option_store.hpp"
#include "config/rdma_options.hpp"
#include "config/size_units.hpp"
#include "config/tls_options.hpp"

namespace peercache::config {
namespace {

using namespace std::chrono_literals;
using type = option_type;

void add_top_level(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "insecure_cluster",
        .type = type::boolean,
        .default_value = false,
        .meaning =
            "Allows addresses other than loopback, and seeds on it, although peers are not "
            "authenticated: without `tls.*` whoever reaches the ports can read and write the "
            "cache. With `dev` seeds on loopback need no such word.",
        .store = into([](node_config & c) -> auto& { return c.cluster.insecure; })},
       {.name = "data_plane",
        .type = type::choice,
        .default_value = "auto",
        .choices = words_of<data_plane_mode>,
        .meaning =
            "How pages travel between hosts: `verbs` is RDMA, `auto` takes RDMA where a device is "
            "usable and TCP elsewhere.",
        .dev_default = "tcp",
        .store = into([](node_config & c) -> auto& { return c.data.plane; })},
       {.name = "dev",
        .type = type::boolean,
        .default_value = false,
        .meaning = "Laptop mode: TCP and a small pool, unless these are set.",
        .store = into([](node_config & c) -> auto& { return c.dev; })}});
}

void add_identity(std::vector<option>& table) {
  table.insert(table.end(),
               {{.name = "node.name",
                 .type = type::text,
                 .default_value = "",
                 .meaning = "Name of this node, unique in the cluster.",
                 .empty_means = "the host name",
                 .store = into([](node_config & c) -> auto& { return c.node.name; })},
                {.name = "node.group",
                 .type = type::text,
                 .default_value = "",
                 .meaning = "Group whose members use this host's pool and socket as clients, "
                            "besides the node's own user, who has to be in it; they need "
                            "`PEERCACHE_NODE_GROUP` in their environment.",
                 .empty_means = "nobody else",
                 .store = into([](node_config & c) -> auto& { return c.node.group; })},
                {.name = "cluster.name",
                 .type = type::text,
                 .default_value = "peercache",
                 .meaning = "Nodes and clients of another cluster name are refused.",
                 .store = into([](node_config & c) -> auto& { return c.cluster.name; })}});
}

void add_discovery(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "discovery.seeds",
        .type = type::endpoints,
        .default_value = std::vector<std::string>{},
        .meaning = "Nodes (`host:port` of their control ports) to join through, at most 64; the "
                   "first is the "
                   "pinned head of the masters, and an empty list starts a cluster of one.",
        .store = into([](node_config & c) -> auto& { return c.discovery.seeds; })},
       {.name = "discovery.max_masters",
        .type = type::integer,
        .default_value = 3ul,
        .min = 1ul,
        .max = 15ul,
        .meaning = "How many nodes act as discovery masters at a time.",
        .store = into([](node_config & c) -> auto& { return c.discovery.max_masters; })},
       {.name = "discovery.heartbeat",
        .type = type::duration,
        .default_value = 500ms,
        .min = 10ms,
        .max = 60'000ms,
        .meaning = "Pause between two signs of life to the masters.",
        .store = into([](node_config & c) -> auto& { return c.discovery.heartbeat; })},
       {.name = "discovery.expiry",
        .type = type::duration,
        .default_value = 2000ms,
        .min = 30ms,
        .max = 600'000ms,
        .meaning =
            "A node that was silent for this long leaves the view; at least three heartbeats.",
        .store = into([](node_config & c) -> auto& { return c.discovery.expiry; })}});
}

void add_pool(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "pool.size",
        .type = type::size,
        .default_value = gib,
        .min = mib,
        // Half of what slots can reach: a slot's number has 32 bits, and a slot at least 4 KiB.
        .max = 8 * tib,
        .meaning = "Memory for pages on this host.",
        .dev_default = 256 * mib,
        .store = into([](node_config & c) -> auto& { return c.pool.size_bytes; })},
       {.name = "pool.huge_pages",
        .type = type::choice,
        .default_value = "off",
        .choices = words_of<huge_pages>,
        .meaning =
            "Size of the kernel's pages behind the pool; huge ones must have been reserved, for "
            "`pool.size` and three or more for its tables (`peercache doctor` says how many).",
        .store = into([](node_config & c) -> auto& { return c.pool.huge_pages; })},
       {.name = "pool.prefault_threads",
        .type = type::integer,
        .default_value = 0ul,
        .min = 0ul,
        .max = 256ul,
        .meaning = "Threads that touch the pool's memory at start; 0 takes one per core.",
        .store = into([](node_config & c) -> auto& { return c.pool.prefault_threads; })}});
}

void add_eviction(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "pool.eviction",
        .type = type::choice,
        .default_value = "auto",
        .choices = words_of<eviction_mode>,
        .meaning = "Which pages go when room is needed; `auto` follows the policy that would have "
                   "kept more "
                   "hits.",
        .store = into([](node_config & c) -> auto& { return c.pool.eviction; })},
       {.name = "pool.free_low",
        .type = type::fraction,
        .default_value = 0.01,
        .min = 0.0,
        .max = 0.5,
        .meaning = "Eviction starts when less than this fraction of the pool is free.",
        .store = into([](node_config & c) -> auto& { return c.pool.free_low; })},
       {.name = "pool.free_high",
        .type = type::fraction,
        .default_value = 0.02,
        .min = 0.0,
        .max = 0.5,
        .meaning = "Eviction stops when this fraction of the pool is free; above `pool.free_low`.",
        .store = into([](node_config & c) -> auto& { return c.pool.free_high; })},
       {.name = "pool.name_prefix",
        .type = type::text,
        .default_value = "peercache",
        .meaning = "Start of the name of the pool's shared memory object: letters, digits, `.`, "
                   "`_` and `-`, at "
                   "most 64.",
        .store = into([](node_config & c) -> auto& { return c.pool.name_prefix; })},
       {.name = "pool.keep",
        .type = type::boolean,
        .default_value = true,
        .meaning =
            "Pages outlive the process: a node that was killed or told to stop by SIGTERM leaves "
            "its pool in shared memory, and the next one of its name goes on with the pages. "
            "SIGINT (Ctrl-C) frees the memory, and so does `peercache-node --discard-pool`; not "
            "with huge pages.",
        .dev_default = false,
        .store = into([](node_config & c) -> auto& { return c.pool.keep; })},
       {.name = "pool.scrub_evicted",
        .type = type::boolean,
        .default_value = false,
        .meaning = "Zero the bytes of evicted and replaced pages, and of pages that were not "
                   "stored after all, before their slots are used again, as those of removed pages "
                   "always are. The memory of each such page is written once more.",
        .store = into([](node_config & c) -> auto& { return c.pool.scrub_evicted; })}});
}

void add_pool_shares(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "pool.mirror",
        .type = type::choice,
        .default_value = "off",
        .choices = words_of<mirror_mode>,
        .meaning = "Which pages that clients of this host read from other hosts get a copy in this "
                   "pool: `hot` those that one client reads twice within a minute, `all` all.",
        .store = into([](node_config & c) -> auto& { return c.pool.mirror; })},
       {.name = "pool.mirror_share",
        .type = type::fraction,
        .default_value = 0.25,
        .min = 0.0,
        .max = 0.9,
        .meaning = "Fraction of the pool that such copies may take.",
        .store = into([](node_config & c) -> auto& { return c.pool.mirror_share; })},
       {.name = "pool.hold_share",
        .type = type::fraction,
        .default_value = 0.25,
        .min = 0.0,
        .max = 0.9,
        .meaning = "Fraction of the pool whose pages look-ups may hold at a time: these are not "
                   "evicted before they are read, for some seconds. 0: nothing is held.",
        .store = into([](node_config & c) -> auto& { return c.pool.hold_share; })}});
}

void add_data_and_set(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "data.max_channels_per_peer",
        .type = type::integer,
        .default_value = std::uint64_t{limits::channels_per_peer_max},
        .min = 1ul,
        .max = std::uint64_t{limits::channels_per_peer_max},
        .meaning = "Data connections to one peer at most; they open when they are needed.",
        .store = into([](node_config & c) -> auto& { return c.data.max_channels_per_peer; })},
       {.name = "data.send_timeout",
        .type = type::duration,
        .default_value = 5000ms,
        .min = 100ms,
        .max = 300'000ms,
        .meaning =
            "A reader that takes less than 1 MiB a second for this long loses its connection "
            "and its pins.",
        .store = into([](node_config & c) -> auto& { return c.data.send_timeout; })},
       {.name = "set.duplicate",
        .type = type::choice,
        .default_value = "skip",
        .choices = words_of<duplicate_mode>,
        .meaning = "What a set does with a page that is readable in the cluster: `skip` stores "
                   "nothing, `store` "
                   "stores another copy on this host.",
        .store = into([](node_config & c) -> auto& { return c.set.duplicate; })}});
}

void add_client_node(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "client.node_host",
        .type = type::text,
        .default_value = "127.0.0.1",
        .meaning = "Address of the node that a client connects to.",
        .store = into([](node_config & c) -> auto& { return c.client.node_host; })},
       {.name = "client.node_port",
        .type = type::integer,
        .default_value = 31998ul,
        .min = 1ul,
        .max = 65535ul,
        .meaning = "Control port of that node.",
        .store = into([](node_config & c) -> auto& { return c.client.node_port; })},
       {.name = "client.timeout",
        .type = type::duration,
        .default_value = 2000ms,
        .min = 1ms,
        .max = 3'600'000ms,
        .meaning = "Deadline of a call that names none; what has not arrived by then is a miss.",
        .store = into([](node_config & c) -> auto& { return c.client.timeout; })},
       {.name = "client.location_cache_keys",
        .type = type::integer,
        .default_value = 1048576ul,
        .min = 0ul,
        .max = 268435456ul,
        .meaning = "Page locations that a client remembers; 0 asks the directory each time.",
        .store = into([](node_config & c) -> auto& { return c.client.location_cache_keys; })},
       {.name = "client.unacknowledged_bytes_max",
        .type = type::size,
        .default_value = gib,
        .min = mib,
        .max = tib,
        .meaning = "Bytes set but not yet acknowledged by the node, an eighth of its pool at most; "
                   "sets wait for room.",
        .store =
            into([](node_config & c) -> auto& { return c.client.unacknowledged_bytes_max; })}});
}

void add_client_verify(std::vector<option>& table) {
  table.insert(table.end(),
               {{.name = "client.verify_own_host",
                 .type = type::choice,
                 .default_value = "always",
                 .choices = words_of<verify_mode>,
                 .meaning = "When the checksum of a page of this host's pool is compared.",
                 .store = into([](node_config & c) -> auto& { return c.client.verify_own_host; })},
                {.name = "client.verify_tcp",
                 .type = type::choice,
                 .default_value = "always",
                 .choices = words_of<verify_mode>,
                 .meaning = "When the checksum of a page that came over TCP is compared.",
                 .store = into([](node_config & c) -> auto& { return c.client.verify_tcp; })},
                {.name = "client.verify_rdma",
                 .type = type::choice,
                 .default_value = "sample",
                 .choices = words_of<verify_mode>,
                 .meaning = "When the checksum of a page that came by RDMA is compared.",
                 .store = into([](node_config & c) -> auto& { return c.client.verify_rdma; })},
                {.name = "client.verify_sample",
                 .type = type::integer,
                 .default_value = 64ul,
                 .min = 1ul,
                 .max = 1'000'000ul,
                 .meaning = "With `sample`, one page in this many is compared.",
                 .store = into([](node_config & c) -> auto& { return c.client.verify_sample; })}});
}

void add_process(std::vector<option>& table) {
  table.insert(table.end(),
               {{.name = "log.level",
                 .type = type::choice,
                 .default_value = "info",
                 .choices = words_of<log_level>,
                 .meaning = "The least severe messages that are written.",
                 .store = into([](node_config & c) -> auto& { return c.log.level; })},
                {.name = "log.json",
                 .type = type::boolean,
                 .default_value = false,
                 .meaning = "Writes each log message as one JSON object a line.",
                 .store = into([](node_config & c) -> auto& { return c.log.json; })},
                {.name = "log.file",
                 .type = type::text,
                 .default_value = "",
                 .meaning = "File to which the node's log is appended, opened again at SIGHUP, so "
                            "that logrotate may move it away; a path that starts with `/`.",
                 .empty_means = "stderr",
                 .store = into([](node_config & c) -> auto& { return c.log.file; })},
                {.name = "actors.threads",
                 .type = type::integer,
                 .default_value = 2ul,
                 .min = 2ul,
                 .max = 4ul,
                 .meaning = "Threads that the actors share.",
                 .store = into([](node_config & c) -> auto& { return c.actors.threads; })},
                {.name = "drain.timeout",
                 .type = type::duration,
                 .default_value = 10'000ms,
                 .min = 0ms,
                 .max = 3'600'000ms,
                 .meaning = "How long a node that was told to stop takes at most: for what is in "
                            "memory only to come to disk (seven tenths of it), until the others "
                            "have a view without it, and for reads to finish. `peercache drain` "
                            "writes for as long.",
                 .store = into([](node_config & c) -> auto& { return c.drain.timeout; })}});
}

std::vector<option> make_table() {
  std::vector<option> table;
  add_top_level(table);
  add_identity(table);
  add_net(table);
  add_tls(table);
  add_discovery(table);
  add_directory(table);
  add_pool(table);
  add_eviction(table);
  add_pool_shares(table);
  add_data_and_set(table);
  add_rdma_devices(table);
  add_rdma_path(table);
  add_rdma_memory(table);
  add_disk_place(table);
  add_disk_store(table);
  add_disk_writes(table);
  add_disk_reads(table);
  add_client_node(table);
  add_client_verify(table);
  add_metrics(table);
  add_process(table);
  return table;
}

} // namespace

const std::vector<option>& options() {
  static const std::vector<option> table = make_table();
  return table;
}

} // namespace peercache::config
