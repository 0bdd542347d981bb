#pragma once

#include "common/ids.hpp"
#include "common/result.hpp"
#include "rdma/memory_rows.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// The handshake on the data port before a reader READs, little endian. The connection stays open
/// for as long as the queue pairs live: when it ends, each side knows that the other side has gone.
/// Any change bumps `verbs_wire_version`. The first four bytes tell this protocol from
/// tcp_protocol.
///
///   reader → server, once      verbs_hello   128  with the reader's queue pair (INIT)
///   server → reader, once      verbs_answer  144  when its queue pair is in RTS; any verdict but
///                                                 `accepted` ends the connection
///   reader → server, once      verbs_ready    16  when its queue pair is in RTS; READs follow
///   server → reader, any time  region_chunk   40  a chunk of the pool, of an area beside it, or of
///                                                 memory under leases is registered
///
/// Every message begins with its magic. Reserved fields are zero.
namespace peercache::rdma {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint32_t verbs_hello_magic = 0x48564350;  // The bytes "PCVH".
inline constexpr std::uint32_t verbs_answer_magic = 0x41564350; // The bytes "PCVA".
inline constexpr std::uint32_t verbs_ready_magic = 0x52564350;  // The bytes "PCVR".
inline constexpr std::uint32_t region_chunk_magic = 0x43564350; // The bytes "PCVC".
inline constexpr std::uint16_t verbs_wire_version = 4;
inline constexpr std::uint32_t region_chunks_max = 4096;
/// Most chunks of all areas beside a pool; a reader ends its connection to a peer that tells more.
inline constexpr std::uint32_t area_chunks_max = 1024;

/// One end of a queue pair.
///   offset  bytes  field
///        0     16  gid
///       16      4  queue_pair       24 bits
///       20      4  psn              24 bits
///       24      4  mtu_bytes        active MTU of the port
///       28      4  message_bytes    longest READ
///       32      2  lid
///       34      1  initiator_depth  READs that this end starts at a time
///       35      1  responder_depth  READs that this end answers at a time
///       36      1  layer            0 Ethernet, 1 InfiniBand
///       37      3  reserved
struct queue_pair_end {
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t queue_pair = 0;
  std::uint32_t psn = 0;
  std::uint32_t mtu_bytes = 0;
  std::uint32_t message_bytes = 0;
  std::uint16_t lid = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t responder_depth = 0;
  std::uint8_t layer = 0;
  std::array<std::uint8_t, 3> reserved{};
};
static_assert(sizeof(queue_pair_end) == 40 && offsetof(queue_pair_end, queue_pair) == 16 &&
              offsetof(queue_pair_end, message_bytes) == 28 &&
              offsetof(queue_pair_end, lid) == 32 && offsetof(queue_pair_end, layer) == 36);

/// The first message of a connection: the reader's queue pair, and which process it expects.
///   offset  bytes  field
///        0      4  magic
///        4      2  version    verbs_wire_version
///        6      1  rail       index of the reader's rail; the server takes it modulo its own count
///        7      1  service    data_service that the reader expects
///        8      8  cluster    digest of the cluster's name
///       16     16  inc        the incarnation that the reader expects
///       32     16  reader     the reader's own incarnation (of its process)
///       48     40  end        the reader's queue pair
///       88     40  name       the reader's name for logs and metrics, zero-padded
struct verbs_hello {
  std::uint32_t magic = verbs_hello_magic;
  std::uint16_t version = verbs_wire_version;
  std::uint8_t rail = 0;
  data_service service = data_service::pool;
  std::uint64_t cluster = 0;
  incarnation inc;
  incarnation reader;
  queue_pair_end end;
  std::array<char, 40> name{};
};
static_assert(sizeof(verbs_hello) == 128 && offsetof(verbs_hello, service) == 7 &&
              offsetof(verbs_hello, inc) == 16 && offsetof(verbs_hello, end) == 48 &&
              offsetof(verbs_hello, name) == 88);

enum class verbs_verdict : std::uint8_t {
  accepted,
  other_incarnation,
  other_cluster,
  incompatible, ///< The wire version, the service or the link layer differs.
  no_device,    ///< The node serves TCP only, or its rail is down.
  busy          ///< A limit of the server is reached; the reader comes again later.
};
inline constexpr std::size_t verbs_verdicts = 6;

/// The server's answer to a verbs_hello: its verdict, queue pair and region.
///   offset  bytes  field
///        0      4  magic
///        4      2  version       the server's
///        6      1  verdict       verbs_verdict
///        7      1  rail          the one that serves
///        8     16  inc           the incarnation that serves; zero in a refusal
///       24     40  end           the server's queue pair; its depths and MTU are the agreed ones
///       64      8  table_address of the slot table, which is where a pool's region begins, or of
///                                the table of leases
///       72      8  pages_address of the first page of a pool; 0 for memory under leases
///       80      4  granules      entries of the table, and granules of a pool's pages
///       84      4  chunks        that a pool's region will have; for memory under leases the most
///                                that there can be at a time
///       88      8  region_bytes  of a pool's chunks together, from table_address on; for memory
///                                under leases of the table
///       96     40  name          the server's node id, zero-padded
///      136      1  rails         of this node
///      137      1  service       data_service
///      138      6  reserved
struct verbs_answer {
  std::uint32_t magic = verbs_answer_magic;
  std::uint16_t version = verbs_wire_version;
  verbs_verdict verdict = verbs_verdict::accepted;
  std::uint8_t rail = 0;
  incarnation inc;
  queue_pair_end end;
  std::uint64_t table_address = 0;
  std::uint64_t pages_address = 0;
  std::uint32_t granules = 0;
  std::uint32_t chunks = 0;
  std::uint64_t region_bytes = 0;
  std::array<char, 40> name{};
  std::uint8_t rails = 0;
  data_service service = data_service::pool;
  std::array<std::uint8_t, 6> reserved{};
};
static_assert(sizeof(verbs_answer) == 144 && offsetof(verbs_answer, inc) == 8 &&
              offsetof(verbs_answer, end) == 24 && offsetof(verbs_answer, table_address) == 64 &&
              offsetof(verbs_answer, granules) == 80 && offsetof(verbs_answer, name) == 96 &&
              offsetof(verbs_answer, rails) == 136 && offsetof(verbs_answer, service) == 137);

/// The reader's queue pair is ready, and READs follow.
///   offset  bytes  field
///        0      4  magic
///        4     12  reserved
struct verbs_ready {
  std::uint32_t magic = verbs_ready_magic;
  std::array<std::uint8_t, 12> reserved{};
};
static_assert(sizeof(verbs_ready) == 16);

/// What a chunk is a part of. An area is memory that a process serves beside its pool, for READs
/// whose bytes the reader judges (`read_batch::judged`).
enum class chunk_kind : std::uint8_t {
  region, ///< A part of what the answer announced: of a pool's region, or memory under leases.
  area
};

/// A chunk of memory that can be read from now on: a part of a pool's region, of an area beside it,
/// or memory under leases. Chunks do not overlap.
///   offset  bytes  field
///        0      4  magic
///        4      4  index     of a pool's chunk, less than `verbs_answer::chunks`; 0 for memory
///                            under leases and for areas
///        8      8  address   of the chunk's first byte
///       16      8  bytes     of the chunk
///       24      4  rkey
///       28      1  kind      chunk_kind; an area only where a pool is served
///       29     11  reserved
struct region_chunk {
  std::uint32_t magic = region_chunk_magic;
  std::uint32_t index = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t rkey = 0;
  chunk_kind kind = chunk_kind::region;
  std::array<std::uint8_t, 11> reserved{};
};
static_assert(sizeof(region_chunk) == 40 && offsetof(region_chunk, rkey) == 24 &&
              offsetof(region_chunk, kind) == 28);

/// The verdict of a server that is `inc` of `cluster` and serves `service` on a reader's hello. A
/// hello with a wrong magic or version is `incompatible`, and its other fields are not looked at. A
/// queue pair's end that cannot be real, or whose link layer is not `layer`, is `incompatible` too.
verbs_verdict judge(const verbs_hello& greeting, std::uint64_t cluster, const incarnation& inc,
                    std::uint8_t layer, data_service service) noexcept;

/// Whether a queue pair's end can be real: numbers within their bits, an address that its layer
/// uses, READs that hold a slot's entry, depths not zero.
bool well_formed(const queue_pair_end& end) noexcept;
/// Whether an answer is an accepted one that can be real: sizes within limits, addresses that do
/// not wrap around, first the table and then a pool's pages, both within the region.
bool well_formed(const verbs_answer& answer) noexcept;
bool well_formed(const verbs_ready& ready) noexcept;
/// Whether a chunk lies where its kind may: a pool's within the region that the answer announced,
/// an area's outside of it, beside a pool only; memory under leases may lie anywhere.
/// @pre well_formed(answer)
bool within(const region_chunk& chunk, const verbs_answer& answer) noexcept;

/// The server's end as it goes into the answer: MTU and message size are the minimum of both ends.
/// `responder_depth` is how many READs the reader may start at a time, `initiator_depth` how many
/// READs the server may start (it starts none, but the device wants a number). The reader connects
/// with the two depths exchanged.
queue_pair_end agree(const queue_pair_end& reader, const queue_pair_end& server) noexcept;

/// The text of a zero-padded name; a byte that cannot be printed becomes '?'.
std::string name_of(const std::array<char, 40>& padded);
/// The first 40 bytes of `name`, as a zero-padded field.
std::array<char, 40> padded_name(std::string_view name) noexcept;

} // namespace peercache::rdma
