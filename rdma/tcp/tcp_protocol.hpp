#pragma once

#include "common/ids.hpp"
#include "common/limits.hpp"
#include "common/page_key.hpp"
#include "common/page_status.hpp"
#include "rdma/memory_rows.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// The protocol between a TCP data plane and a TCP page server, little endian. Any change bumps
/// `tcp_wire_version`.
///
///   reader → server, once      hello           32 bytes
///   server → reader, once      hello_answer    24 bytes; any verdict but `accepted` ends
///                                              the connection
///   reader → server, any time  request_header  16 bytes, then `page_count` request_records
///                                              of 72 bytes
///   server → reader, in order  answer_header   16 bytes, then `page_count` status bytes
///                                              (page_status) and zeros up to a multiple of
///                                              `answer_line_bytes`, which the reader overlooks;
///                                              then the payloads of the pages whose status is
///                                              `hit`, back to back; from a server of memory then
///                                              the verdicts: `page_count` status bytes again, and
///                                              zeros as before
///
/// A slot is pinned while its page is sent. Memory under a lease is not: the server looks at the
/// lease before the answer, and again when the socket has taken the last byte of the payloads. A
/// page is a hit when both looks, the status and the verdict, say so.
///
/// Under TLS, all messages are inside TLS except the payloads: these are inside it when the agreed
/// extent is `tls_extent::full`, and otherwise go past TLS, behind the record in which the zeros
/// behind the status bytes end.
///
/// Requests of a connection are answered in their order; a reader may send several ahead. Limits
/// that the receiver checks before anything else: 1..request_pages_max pages of 1..page_bytes_max
/// bytes, and together at most request_bytes_max unless the request is for a single page. Reserved
/// fields are zero.
namespace peercache::rdma {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::uint32_t hello_magic = 0x48544350;   // The bytes "PCTH".
inline constexpr std::uint32_t request_magic = 0x51544350; // The bytes "PCTQ".
inline constexpr std::uint32_t answer_magic = 0x41544350;  // The bytes "PCTA".
inline constexpr std::uint16_t tcp_wire_version = 4;

inline constexpr std::uint32_t request_pages_max = 128;
inline constexpr std::uint64_t request_bytes_max = 8u << 20;
static_assert(request_bytes_max <= limits::page_bytes_max);

/// Which bytes of a connection are inside TLS.
enum class tls_extent : std::uint8_t {
  none,
  handshake, ///< Everything but the payloads.
  full
};

/// The first message of a connection: the reader says which process it expects.
///   offset  bytes  field
///        0      4  magic       hello_magic
///        4      2  version     tcp_wire_version
///        6      1  service     data_service that the reader expects
///        7      1  extent      tls_extent that the reader wants at least
///        8      8  cluster     digest of the cluster's name
///       16     16  inc         the incarnation that the reader expects
struct hello {
  std::uint32_t magic = hello_magic;
  std::uint16_t version = tcp_wire_version;
  data_service service = data_service::pool;
  tls_extent extent = tls_extent::none;
  std::uint64_t cluster = 0;
  incarnation inc;
};
static_assert(sizeof(hello) == 32 && offsetof(hello, service) == 6 &&
              offsetof(hello, extent) == 7 && offsetof(hello, cluster) == 8 &&
              offsetof(hello, inc) == 16);

enum class hello_verdict : std::uint8_t {
  accepted,
  other_incarnation,
  other_cluster,
  incompatible ///< The wire version or the service differs, or only one side is under TLS.
};

/// The server's answer to a hello: whether it serves this reader.
///   offset  bytes  field
///        0      4  magic       hello_magic
///        4      2  version     the server's
///        6      1  verdict     hello_verdict
///        7      1  extent      tls_extent from here on: the larger one of both sides'; `none` in a
///                              refusal
///        8     16  inc         the incarnation that serves; zero in a refusal
struct hello_answer {
  std::uint32_t magic = hello_magic;
  std::uint16_t version = tcp_wire_version;
  hello_verdict verdict = hello_verdict::accepted;
  tls_extent extent = tls_extent::none;
  incarnation inc;
};
static_assert(sizeof(hello_answer) == 24 && offsetof(hello_answer, verdict) == 6 &&
              offsetof(hello_answer, extent) == 7 && offsetof(hello_answer, inc) == 8);

/// The begin of a request, before its `page_count` request_records.
///   offset  bytes  field
///        0      4  magic       request_magic
///        4      4  page_count
///        8      8  request_id
struct request_header {
  std::uint32_t magic = request_magic;
  std::uint32_t page_count = 0;
  std::uint64_t request_id = 0;
};
static_assert(sizeof(request_header) == 16 && offsetof(request_header, page_count) == 4 &&
              offsetof(request_header, request_id) == 8);

/// One page that a request asks for. A page of a pool is named as in the directory's record, a page
/// in leased memory as its owner has announced it.
///   offset  bytes  field
///        0     32  key           of the page, or of the lease
///       32      8  gen           of the slot, or of the lease
///       40      4  slot          the slot, or the lease
///       44      4  length_bytes
///       48     24  source        memory_rows: address 8, stride_bytes 8, rows 4, row_bytes 4; all
///                                zero for a page of a pool
struct request_record {
  page_key key;
  generation gen;
  slot_id slot;
  std::uint32_t length_bytes = 0;
  memory_rows source;
};
static_assert(sizeof(request_record) == 72 && offsetof(request_record, gen) == 32 &&
              offsetof(request_record, slot) == 40 &&
              offsetof(request_record, length_bytes) == 44 &&
              offsetof(request_record, source) == 48);
static_assert(sizeof(memory_rows) == 24 && offsetof(memory_rows, stride_bytes) == 8 &&
              offsetof(memory_rows, rows) == 16 && offsetof(memory_rows, row_bytes) == 20);

/// The begin of an answer, before its status bytes and payloads.
///   offset  bytes  field
///        0      4  magic       answer_magic
///        4      4  page_count  the request's
///        8      8  request_id  the request's
struct answer_header {
  std::uint32_t magic = answer_magic;
  std::uint32_t page_count = 0;
  std::uint64_t request_id = 0;
};
static_assert(sizeof(answer_header) == 16 && offsetof(answer_header, page_count) == 4 &&
              offsetof(answer_header, request_id) == 8);

inline constexpr std::size_t request_frame_bytes_max =
    sizeof(request_header) + request_pages_max * sizeof(request_record);

/// What stands in front of payloads and between them is a multiple of this. The kernel of a sender
/// packs what it sends without gaps, and copies with `rep movsb`: where a copy begins 1 to 31 bytes
/// further behind the begin of a 4 KiB page than its source, AMD's Zen 3 and 4 take four to five
/// times as long (bench/README.md; glibc's bug 30994). Behind whole lines no payload of whole lines
/// is copied so.
inline constexpr std::size_t answer_line_bytes = 64;

constexpr std::size_t whole_answer_lines(std::size_t bytes) noexcept {
  return (bytes + answer_line_bytes - 1) / answer_line_bytes * answer_line_bytes;
}
/// Bytes of an answer before its payloads.
constexpr std::size_t answer_head_bytes(std::size_t page_count) noexcept {
  return whole_answer_lines(sizeof(answer_header) + page_count);
}
inline constexpr std::size_t answer_head_bytes_max = answer_head_bytes(request_pages_max);

/// The digest of a cluster's name in the hello.
std::uint64_t cluster_digest(std::string_view cluster) noexcept;

/// The verdict of a server that is `inc` of `cluster` and serves `service` on a reader's hello. A
/// hello with a wrong magic is `incompatible`, and its other fields are not looked at.
hello_verdict judge(const hello& greeting, std::uint64_t cluster, const incarnation& inc,
                    data_service service, tls_extent own = tls_extent::none) noexcept;

/// The extent that two sides agree on when one side wants `one` and the other side `other`; nothing
/// when the two sides cannot talk to each other.
std::optional<tls_extent> agreed(tls_extent one, tls_extent other) noexcept;

/// Whether a request's header has the right magic, and its number of pages is within the limits.
bool within_limits(const request_header& header) noexcept;
/// Whether the lengths of a request's pages are within the limits of the protocol, and the pages'
/// sources fit the service.
bool within_limits(const request_record* records, std::uint32_t count,
                   data_service service) noexcept;

/// Whether a server may give a page this status in an answer.
bool is_answer_status(std::uint8_t status) noexcept;

} // namespace peercache::rdma
