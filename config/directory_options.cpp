#include "config/directory_options.hpp"

#include "common/limits.hpp"
#include "config/option_store.hpp"
#include "config/size_units.hpp"

namespace peercache::config {
namespace {

using type = option_type;

} // namespace

void add_directory(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "directory.replicas",
        .type = type::integer,
        .default_value = std::uint64_t{limits::directory_replicas_default},
        .min = 1ul,
        .max = 8ul,
        .meaning = "How many nodes hold the directory record of each page; the same on every node.",
        .store = into([](node_config & c) -> auto& { return c.directory.replicas; })},
       {.name = "directory.records_max",
        .type = type::integer,
        .default_value = 16'000'000ul,
        .min = 1000ul,
        .max = 1'000'000'000ul,
        .meaning = "Records that this node's shard of the directory takes, each about 100 bytes "
                   "of memory; further ones are refused.",
        .store = into([](node_config & c) -> auto& { return c.directory.records_max; })},
       {.name = "directory.republish_rate",
        .type = type::integer,
        .default_value = 200'000ul,
        .min = 0ul,
        .max = 1'000'000'000ul,
        .meaning = "Records that a node tells their new owners each second after a change of view; "
                   "0 is no limit.",
        .store = into([](node_config & c) -> auto& { return c.directory.republish_rate; })},
       {.name = "directory.repair_rate",
        .type = type::size,
        .default_value = mib,
        .min = 0ul,
        .max = tib,
        .meaning = "Bytes per second at which a node compares, in the background, what it holds "
                   "with what the directory says it holds; 0 does not.",
        .store = into([](node_config & c) -> auto& { return c.directory.repair_rate; })},
       {.name = "overlap.gpu_keys",
        .type = type::integer,
        .default_value = 1ul << 20,
        .min = 0ul,
        .max = 64ul << 20,
        .meaning = "Pages on GPUs that the engines of this host may tell of, for the queries of "
                   "routers; each about 40 bytes of memory. Further ones are not taken.",
        .store = into([](node_config & c) -> auto& { return c.overlap.gpu_keys; })}});
}

} // namespace peercache::config
