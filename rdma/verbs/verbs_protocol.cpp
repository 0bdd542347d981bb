#include "rdma/verbs/verbs_protocol.hpp"

#include "common/guards.hpp"
#include "common/limits.hpp"
#include "common/printable.hpp"
#include "common/slot_entry.hpp"

#include <algorithm>

namespace peercache::rdma {

namespace {

/// The highest number of a queue pair or packet, which has 24 bits.
constexpr std::uint32_t number_max = (1u << 24) - 1;
constexpr std::uint8_t layer_ethernet = 0;
constexpr std::uint8_t layer_infiniband = 1;
static_assert(static_cast<std::size_t>(verbs_verdict::busy) + 1 == verbs_verdicts);

template <class Range>
bool all_zero(const Range& values) noexcept {
  return std::all_of(values.begin(), values.end(), [](auto value) { return value == 0; });
}

bool is_mtu(std::uint32_t bytes) noexcept {
  return std::has_single_bit(bytes) && bytes >= 256 && bytes <= 4096;
}

bool has_address(const queue_pair_end& end) noexcept {
  return end.layer == layer_ethernet     ? !all_zero(end.gid)
         : end.layer == layer_infiniband ? end.lid != 0
                                         : false;
}

/// Whether [address, address + bytes) lies within [begin, begin + size). @pre the outer range does
/// not wrap around
bool lies_within(std::uint64_t address, std::uint64_t bytes, std::uint64_t begin,
                 std::uint64_t size) noexcept {
  return address >= begin && address - begin <= size && bytes <= size - (address - begin);
}

/// Whether a chunk neither begins at the null address nor wraps around.
bool is_memory(const region_chunk& chunk) noexcept {
  return chunk.address != 0 && chunk.bytes <= ~std::uint64_t{0} - chunk.address;
}

/// Whether no byte of a chunk lies in the answer's region. @pre neither wraps around
bool lies_outside(const region_chunk& chunk, const verbs_answer& answer) noexcept {
  return chunk.address + chunk.bytes <= answer.table_address ||
         chunk.address >= answer.table_address + answer.region_bytes;
}

bool layout_is_real(const verbs_answer& answer) noexcept {
  const auto begin = answer.table_address;
  const auto size = answer.region_bytes;
  if (begin == 0 || begin % alignof(slot_entry) != 0 || size > ~std::uint64_t{0} - begin)
    return false;
  const auto table_bytes = std::uint64_t{answer.granules} * sizeof(slot_entry);
  if (answer.service == data_service::handoff)
    return answer.pages_address == 0 && size == table_bytes;
  const auto pages_bytes = std::uint64_t{answer.granules} * limits::granule_bytes;
  return lies_within(begin, table_bytes, begin, size) &&
         lies_within(answer.pages_address, pages_bytes, begin, size) &&
         answer.pages_address - begin >= table_bytes;
}

} // namespace

verbs_verdict judge(const verbs_hello& greeting, std::uint64_t cluster, const incarnation& inc,
                    std::uint8_t layer, data_service service) noexcept {
  if (greeting.magic != verbs_hello_magic || greeting.version != verbs_wire_version ||
      greeting.service != service)
    return verbs_verdict::incompatible;
  if (greeting.cluster != cluster)
    return verbs_verdict::other_cluster;
  if (greeting.inc != inc && guard_on(guard::incarnation))
    return verbs_verdict::other_incarnation;
  if (greeting.end.layer != layer || !well_formed(greeting.end))
    return verbs_verdict::incompatible;
  return verbs_verdict::accepted;
}

bool well_formed(const queue_pair_end& end) noexcept {
  return end.queue_pair != 0 && end.queue_pair <= number_max && end.psn <= number_max &&
         is_mtu(end.mtu_bytes) && end.message_bytes >= sizeof(slot_entry) &&
         end.initiator_depth != 0 && end.responder_depth != 0 && has_address(end) &&
         all_zero(end.reserved);
}

bool well_formed(const verbs_answer& answer) noexcept {
  return answer.magic == verbs_answer_magic && answer.version == verbs_wire_version &&
         answer.verdict == verbs_verdict::accepted && all_zero(answer.reserved) &&
         answer.service <= data_service::handoff && answer.rail < answer.rails &&
         well_formed(answer.end) && answer.granules != 0 && answer.chunks != 0 &&
         answer.chunks <= region_chunks_max && layout_is_real(answer);
}

bool well_formed(const verbs_ready& ready) noexcept {
  return ready.magic == verbs_ready_magic && all_zero(ready.reserved);
}

bool within(const region_chunk& chunk, const verbs_answer& answer) noexcept {
  if (chunk.magic != region_chunk_magic || !all_zero(chunk.reserved) || chunk.bytes == 0)
    return false;
  if (chunk.kind == chunk_kind::area)
    return answer.service == data_service::pool && chunk.index == 0 && is_memory(chunk) &&
           lies_outside(chunk, answer);
  if (chunk.kind != chunk_kind::region || chunk.index >= answer.chunks)
    return false;
  if (answer.service == data_service::handoff)
    return is_memory(chunk);
  return lies_within(chunk.address, chunk.bytes, answer.table_address, answer.region_bytes);
}

queue_pair_end agree(const queue_pair_end& reader, const queue_pair_end& server) noexcept {
  auto agreed = server;
  agreed.mtu_bytes = std::min(reader.mtu_bytes, server.mtu_bytes);
  agreed.message_bytes = std::min(reader.message_bytes, server.message_bytes);
  agreed.responder_depth = std::min(reader.initiator_depth, server.responder_depth);
  agreed.initiator_depth = std::min(reader.responder_depth, server.initiator_depth);
  return agreed;
}

std::string name_of(const std::array<char, 40>& padded) {
  return printable({padded.begin(), std::find(padded.begin(), padded.end(), '\0')});
}

std::array<char, 40> padded_name(std::string_view name) noexcept {
  std::array<char, 40> padded{};
  std::copy_n(name.begin(), std::min(name.size(), padded.size()), padded.begin());
  return padded;
}

} // namespace peercache::rdma
