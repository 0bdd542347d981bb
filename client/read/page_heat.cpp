#include "client/read/page_heat.hpp"

#include <algorithm>

namespace peercache::client {

namespace {

constexpr std::uint32_t seconds_mask = (1u << 24) - 1;
constexpr std::uint32_t reads_max = 127;

} // namespace

page_heat::cell page_heat::unpack(std::uint64_t bits) noexcept {
  return {static_cast<std::uint32_t>(bits >> 32),
          static_cast<std::uint32_t>(bits >> 8) & seconds_mask, (bits >> 7 & 1) != 0,
          static_cast<std::uint32_t>(bits & reads_max)};
}

std::uint64_t page_heat::pack(const cell& from) noexcept {
  return std::uint64_t{from.tag} << 32 | std::uint64_t{from.seconds} << 8 |
         std::uint64_t{from.mirrored} << 7 | from.reads;
}

std::uint32_t page_heat::tag_of(const page_key& key) noexcept {
  return static_cast<std::uint32_t>(key.prefix() >> 32);
}

std::uint32_t page_heat::seconds_of(time_point now) noexcept {
  auto since = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  return static_cast<std::uint32_t>(since) & seconds_mask;
}

page_heat::cell page_heat::look(const page_key& key, time_point now) const noexcept {
  auto known = unpack((*cells_)[key.prefix() % cells].load(std::memory_order_relaxed));
  const auto age = (seconds_of(now) - known.seconds) & seconds_mask;
  if (known.tag == tag_of(key) && known.reads > 0 &&
      age < static_cast<std::uint32_t>(window.count()))
    return known;
  return {tag_of(key), seconds_of(now), false, 0};
}

std::uint32_t page_heat::count_read(const page_key& key, time_point now) noexcept {
  auto known = look(key, now);
  known.reads = std::min(known.reads + 1, reads_max);
  (*cells_)[key.prefix() % cells].store(pack(known), std::memory_order_relaxed);
  return known.reads;
}

void page_heat::mark_mirrored(const page_key& key, time_point now) noexcept {
  cell made{tag_of(key), seconds_of(now), true, 1};
  (*cells_)[key.prefix() % cells].store(pack(made), std::memory_order_relaxed);
}

bool page_heat::is_mirrored(const page_key& key, time_point now) const noexcept {
  return look(key, now).mirrored;
}

} // namespace peercache::client
