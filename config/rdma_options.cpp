#include "config/rdma_options.hpp"

#include "config/option_store.hpp"
#include "config/size_units.hpp"

namespace peercache::config {
namespace {

using type = option_type;

} // namespace

void add_rdma_devices(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "rdma.devices",
        .type = type::names,
        .default_value = std::vector<std::string>{"auto"},
        .meaning = "RDMA devices to use, one rail each, such as `[\"mlx5_0\", \"mlx5_1\"]`; `auto` "
                   "takes every usable one. Rail n of a reader talks to rail n of its peer.",
        .store = into([](node_config & c) -> auto& { return c.rdma.devices; })},
       {.name = "rdma.port",
        .type = type::integer,
        .default_value = 0ul,
        .min = 0ul,
        .max = 255ul,
        .meaning = "Port of each device; 0 is the first active one.",
        .store = into([](node_config & c) -> auto& { return c.rdma.port; })},
       {.name = "rdma.gid_index",
        .type = type::integer,
        .default_value = std::uint64_t{rdma_gid_chosen},
        .min = 0ul,
        .max = std::uint64_t{rdma_gid_chosen},
        .meaning = "Entry of the ports' GID tables; 255 chooses by itself: RoCE v2 over IPv4, then "
                   "over IPv6.",
        .store = into([](node_config & c) -> auto& { return c.rdma.gid_index; })}});
}

void add_rdma_path(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "rdma.traffic_class",
        .type = type::integer,
        .default_value = 0ul,
        .min = 0ul,
        .max = 255ul,
        .meaning = "Traffic class of the packets (RoCE: DSCP * 4), as the fabric's lossless class "
                   "wants it.",
        .store = into([](node_config & c) -> auto& { return c.rdma.traffic_class; })},
       {.name = "rdma.service_level",
        .type = type::integer,
        .default_value = 0ul,
        .min = 0ul,
        .max = 15ul,
        .meaning = "Service level: the virtual lane on InfiniBand, the priority on RoCE.",
        .store = into([](node_config & c) -> auto& { return c.rdma.service_level; })},
       {.name = "rdma.hop_limit",
        .type = type::integer,
        .default_value = 64ul,
        .min = 1ul,
        .max = 255ul,
        .meaning = "Hops that a packet may take; above 1 it is routed between subnets.",
        .store = into([](node_config & c) -> auto& { return c.rdma.hop_limit; })},
       {.name = "rdma.timeout",
        .type = type::integer,
        .default_value = 14ul,
        .min = 8ul,
        .max = 15ul,
        .meaning =
            "A packet without acknowledgement is sent again after 4.096 us * 2^timeout, "
            "`rdma.retries` times: under a second with any values that are allowed, of which "
            "a NIC may make up to four.",
        .store = into([](node_config & c) -> auto& { return c.rdma.timeout; })},
       {.name = "rdma.retries",
        .type = type::integer,
        .default_value = 3ul,
        .min = 1ul,
        .max = 6ul,
        .meaning = "How often it is sent again before the connection counts as broken.",
        .store = into([](node_config & c) -> auto& { return c.rdma.retries; })}});
}

void add_rdma_memory(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "rdma.chunk_size",
        .type = type::size,
        .default_value = gib,
        .min = 2 * mib,
        .max = 1024 * gib,
        .meaning =
            "The pool is registered in pieces of this size, several at once; readers use each "
            "as soon as it is there.",
        .store = into([](node_config & c) -> auto& { return c.rdma.chunk_bytes; })},
       {.name = "rdma.registration_threads",
        .type = type::integer,
        .default_value = 4ul,
        .min = 1ul,
        .max = 64ul,
        .meaning = "Threads that register the pool at start.",
        .store = into([](node_config & c) -> auto& { return c.rdma.registration_threads; })},
       {.name = "rdma.bounce_size",
        .type = type::size,
        .default_value = 32 * mib,
        .min = mib,
        .max = 16 * gib,
        .meaning = "Registered memory of each rail for reads into memory that the caller did not "
                   "register.",
        .store = into([](node_config & c) -> auto& { return c.rdma.bounce_bytes; })},
       {.name = "rdma.windows",
        .type = type::boolean,
        .default_value = false,
        .meaning =
            "Gives each reader keys of its own to what is served: memory windows of type 2B, "
            "which work on its queue pair alone and end with it. One for each piece "
            "(`rdma.chunk_size`, 2 GiB at most) and connection; every device has to have them.",
        .store = into([](node_config & c) -> auto& { return c.rdma.windows; })}});
}

} // namespace peercache::config
