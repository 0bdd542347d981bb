#include "rdma/tcp/tcp_protocol.hpp"

#include "common/checksum.hpp"
#include "common/guards.hpp"

#include <algorithm>
#include <span>

namespace peercache::rdma {

std::uint64_t cluster_digest(std::string_view cluster) noexcept {
  return checksum_of(std::as_bytes(std::span(cluster.data(), cluster.size())));
}

hello_verdict judge(const hello& greeting, std::uint64_t cluster, const incarnation& inc,
                    data_service service, tls_extent own) noexcept {
  if (greeting.magic != hello_magic || greeting.version != tcp_wire_version ||
      greeting.service != service || !agreed(greeting.extent, own))
    return hello_verdict::incompatible;
  if (greeting.cluster != cluster)
    return hello_verdict::other_cluster;
  if (greeting.inc != inc && guard_on(guard::incarnation))
    return hello_verdict::other_incarnation;
  return hello_verdict::accepted;
}

std::optional<tls_extent> agreed(tls_extent one, tls_extent other) noexcept {
  const auto larger = std::max(one, other);
  if (larger > tls_extent::full || (one == tls_extent::none) != (other == tls_extent::none))
    return std::nullopt;
  return larger;
}

bool within_limits(const request_header& header) noexcept {
  return header.magic == request_magic && header.page_count >= 1 &&
         header.page_count <= request_pages_max;
}

bool within_limits(const request_record* records, std::uint32_t count,
                   data_service service) noexcept {
  std::uint64_t sum_bytes = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto length_bytes = records[i].length_bytes;
    const auto& source = records[i].source;
    if (length_bytes == 0 || length_bytes > limits::page_bytes_max ||
        !(service == data_service::pool ? source.rows == 0 : well_formed(source, length_bytes)))
      return false;
    sum_bytes += length_bytes;
  }
  return count == 1 || sum_bytes <= request_bytes_max;
}

bool is_answer_status(std::uint8_t status) noexcept {
  switch (static_cast<page_status>(status)) {
  case page_status::hit:
  case page_status::not_found:
  case page_status::stale:
  case page_status::holder_gone:
  case page_status::wrong_key:
  case page_status::refused:
  case page_status::bad_size:
  case page_status::closed:
    return true;
  default:
    return false;
  }
}

} // namespace peercache::rdma
