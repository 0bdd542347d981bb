#include "storage/disk/record.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#if defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#else
#include <nmmintrin.h>
#endif

namespace peercache::storage {
namespace {

static_assert(std::endian::native == std::endian::little, "records are little endian");

constexpr std::size_t after_crc = offsetof(record_header, header_crc) + sizeof(std::uint32_t);

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  constexpr std::uint32_t castagnoli_reflected = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ ((value & 1) != 0 ? castagnoli_reflected : 0);
    table[i] = value;
  }
  return table;
}();

// The CPU's instructions for CRC-32C, for a word and for a byte.
#if defined(__aarch64__)
#define PEERCACHE_CRC_TARGET __attribute__((target("+crc")))
PEERCACHE_CRC_TARGET std::uint32_t crc_step(std::uint32_t state, std::uint64_t word) noexcept {
  return __crc32cd(state, word);
}
PEERCACHE_CRC_TARGET std::uint32_t crc_step(std::uint32_t state, std::uint8_t byte) noexcept {
  return __crc32cb(state, byte);
}
bool cpu_has_crc32c() noexcept {
  return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
#else
#define PEERCACHE_CRC_TARGET __attribute__((target("sse4.2")))
PEERCACHE_CRC_TARGET std::uint32_t crc_step(std::uint32_t state, std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(_mm_crc32_u64(state, word));
}
PEERCACHE_CRC_TARGET std::uint32_t crc_step(std::uint32_t state, std::uint8_t byte) noexcept {
  return _mm_crc32_u8(state, byte);
}
bool cpu_has_crc32c() noexcept {
  return __builtin_cpu_supports("sse4.2");
}
#endif

PEERCACHE_CRC_TARGET std::uint32_t crc32c_of_cpu(std::span<const std::byte> bytes,
                                                 std::uint32_t before) noexcept {
  std::uint32_t state = ~before;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= sizeof(std::uint64_t); left -= sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    state = crc_step(state, word);
    at += sizeof word;
  }
  for (; left != 0; --left)
    state = crc_step(state, std::to_integer<std::uint8_t>(*at++));
  return ~state;
}

std::uint32_t crc_of(std::span<const std::byte, sizeof(record_header)> raw) noexcept {
  return crc32c(raw.subspan<after_crc>(), crc32c(raw.first<offsetof(record_header, header_crc)>()));
}

bool is_page(const record_header& header) noexcept {
  return header.length_bytes != 0 && header.length_bytes <= limits::page_bytes_max &&
         header.offset_bytes % disk_block_bytes == 0;
}

} // namespace

std::uint32_t detail::crc32c_portable(std::span<const std::byte> bytes,
                                      std::uint32_t before) noexcept {
  std::uint32_t state = ~before;
  for (const std::byte byte : bytes)
    state = (state >> 8) ^ crc_table[(state ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return ~state;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  static const auto best = cpu_has_crc32c() ? crc32c_of_cpu : detail::crc32c_portable;
  return best(bytes, before);
}

void seal(record_header& header) noexcept {
  header.magic = record_header{}.magic;
  header.version = record_version;
  header.header_crc = crc_of(std::as_bytes(std::span<const record_header, 1>{&header, 1}));
}

record_fault read_record(std::span<const std::byte> raw, const record_owner& owner,
                         record_header& header) noexcept {
  PEERCACHE_ASSERT(raw.size() >= sizeof header);
  const auto bytes = raw.first<sizeof(record_header)>();
  if (std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }))
    return record_fault::empty;
  record_header read;
  std::memcpy(&read, bytes.data(), sizeof read);
  if (read.magic != record_header{}.magic || read.header_crc != crc_of(bytes))
    return record_fault::torn;
  if (read.version != record_version)
    return record_fault::version;
  if (read.space != owner.space || read.node != owner.node)
    return record_fault::foreign;
  if (!is_page(read))
    return record_fault::bad_size;
  header = read;
  return record_fault::none;
}

} // namespace peercache::storage
