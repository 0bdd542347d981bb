#include "config/disk_options.hpp"

#include "config/option_store.hpp"
#include "config/size_units.hpp"

namespace peercache::config {
namespace {

using namespace std::chrono_literals;
using type = option_type;

} // namespace

void add_disk_place(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "disk.enabled",
        .type = type::boolean,
        .default_value = true,
        .meaning = "Keeps pages on disk below `disk.path`; false forgets what leaves memory, even "
                   "if a path is given.",
        .store = into([](node_config & c) -> auto& { return c.disk.enabled; })},
       {.name = "disk.path",
        .type = type::text,
        .default_value = "",
        .meaning = "Folder of the disk tier, an absolute path on a local file system. Nodes of one "
                   "host may share it: each has its own folder in it, called like the node.",
        .empty_means = "no disk tier",
        .store = into([](node_config & c) -> auto& { return c.disk.path; })},
       {.name = "disk.size",
        .type = type::size,
        .default_value = 100 * gib,
        .min = 16 * mib,
        .max = 1024 * tib,
        .meaning = "The most that this node's files take on disk, in real bytes: headers and "
                   "unused room included.",
        .store = into([](node_config & c) -> auto& { return c.disk.size_bytes; })},
       {.name = "disk.high_watermark",
        .type = type::fraction,
        .default_value = 0.95,
        .min = 0.05,
        .max = 1.0,
        .meaning = "Pages are evicted from disk when more than this fraction of `disk.size` is "
                   "used.",
        .store = into([](node_config & c) -> auto& { return c.disk.high_watermark; })},
       {.name = "disk.low_watermark",
        .type = type::fraction,
        .default_value = 0.9,
        .min = 0.0,
        .max = 1.0,
        .meaning = "Eviction from disk stops at this fraction; below `disk.high_watermark`.",
        .store = into([](node_config & c) -> auto& { return c.disk.low_watermark; })}});
}

void add_disk_store(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "disk.store",
        .type = type::choice,
        .default_value = "bucket",
        .choices = words_of<disk_store_mode>,
        .meaning = "How pages lie in files: `bucket` writes them one behind the other into large "
                   "files, `file_per_key` gives each its own file, `offset` puts all into one "
                   "file. Each finds only its own pages again.",
        .store = into([](node_config & c) -> auto& { return c.disk.store; })},
       {.name = "disk.eviction",
        .type = type::choice,
        .default_value = "fifo",
        .choices = words_of<disk_eviction>,
        .meaning = "What leaves the disk first: `fifo` what was written first, `lru` what was read "
                   "least recently; `bucket` evicts a file with all its pages.",
        .store = into([](node_config & c) -> auto& { return c.disk.eviction; })},
       {.name = "disk.ttl",
        .type = type::duration,
        .default_value = 0ms,
        .min = 0ms,
        .max = std::chrono::milliseconds(std::chrono::hours(10 * 365 * 24)),
        .meaning = "Pages that were written longer ago are gone from disk; 0s keeps them until "
                   "room is needed, else at least 1s.",
        .store = into([](node_config & c) -> auto& { return c.disk.ttl; })},
       {.name = "disk.bucket_size",
        .type = type::size,
        .default_value = 256 * mib,
        .min = mib,
        .max = 64 * gib,
        .meaning =
            "Size of a file of the store `bucket`, which is evicted as a whole; the node takes "
            "no more than a quarter of `disk.size`.",
        .store = into([](node_config & c) -> auto& { return c.disk.bucket_bytes; })},
       {.name = "disk.bucket_keys",
        .type = type::integer,
        .default_value = 500ul,
        .min = 1ul,
        .max = 1'000'000ul,
        .meaning = "Pages of a file of the store `bucket` at most.",
        .store = into([](node_config & c) -> auto& { return c.disk.bucket_keys; })}});
}

void add_disk_writes(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "disk.policy",
        .type = type::choice,
        .default_value = "write_through",
        .choices = words_of<disk_policy>,
        .meaning = "When a page is written to disk: `write_through` after it was set, or later, "
                   "when the disk has time; `on_evict` when it is about to leave memory, and "
                   "before the node stops.",
        .store = into([](node_config & c) -> auto& { return c.disk.policy; })},
       {.name = "disk.queue_size",
        .type = type::size,
        .default_value = gib,
        .min = mib,
        .max = tib,
        .meaning = "Bytes of pages that wait to be written; further ones are not written, and "
                   "counted. They stay in memory while they wait: at most a quarter of the pool is "
                   "used for it.",
        .store = into([](node_config & c) -> auto& { return c.disk.queue_bytes; })},
       {.name = "disk.queue_depth",
        .type = type::integer,
        .default_value = 64ul,
        .min = 1ul,
        .max = 4096ul,
        .meaning = "Requests that the device works on at a time.",
        .store = into([](node_config & c) -> auto& { return c.disk.queue_depth; })}});
}

void add_disk_reads(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "disk.promote_size",
        .type = type::size,
        .default_value = 256 * mib,
        .min = mib,
        .max = tib,
        .meaning = "Bytes of pages on their way from disk into memory at a time; further ones "
                   "are misses.",
        .store = into([](node_config & c) -> auto& { return c.disk.promote_bytes; })},
       {.name = "disk.warm",
        .type = type::boolean,
        .default_value = true,
        .meaning = "An `exists` of a page that is only on disk starts to bring it into memory.",
        .store = into([](node_config & c) -> auto& { return c.disk.warm; })},
       {.name = "disk.scrub_rate",
        .type = type::size,
        .default_value = 16 * mib,
        .min = 0ul,
        .max = tib,
        .meaning = "Bytes per second at which pages on disk are read in the background and their "
                   "checksums compared; 0 does not.",
        .store = into([](node_config & c) -> auto& { return c.disk.scrub_bytes_per_s; })},
       {.name = "disk.verify",
        .type = type::boolean,
        .default_value = false,
        .meaning = "Reads all pages on disk at start, and compares their checksums, before they "
                   "are served; false reads headers alone.",
        .store = into([](node_config & c) -> auto& { return c.disk.verify; })}});
}

} // namespace peercache::config
