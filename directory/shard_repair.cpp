#include "directory/shard_repair.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"
#include "directory/wire.hpp"

#include <bit>
#include <cstring>

namespace peercache::directory {

static_assert(std::endian::native == std::endian::little, "records are copied as they lie");

namespace {

constexpr std::size_t comparison_bytes = sizeof(incarnation) + sizeof(holder_digest);
static_assert(comparison_bytes == 16 + 1024);
constexpr std::size_t list_request_bytes = 32;
constexpr std::size_t list_header_bytes = 8;
/// Places of the shard that one message walks: about a millisecond of work.
constexpr std::uint32_t places_max = 65536;
constexpr std::uint32_t places_per_step = 2048;
static_assert(places_per_step <= limits::batch_pages_max / 2);

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T read_at(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data() + offset, sizeof value);
  return value;
}

} // namespace

std::string comparison_of(const incarnation& holder, const holder_digest& digest) {
  std::string bytes;
  append(bytes, holder);
  append(bytes, digest);
  return bytes;
}

result<std::uint64_t> compare_digests(const shard& source, std::string_view comparison) {
  if (comparison.size() != comparison_bytes)
    return malformed("comparison", comparison);
  const auto* known = source.digest_of(read_at<incarnation>(comparison, 0));
  const auto said = read_at<holder_digest>(comparison, sizeof(incarnation));
  std::uint64_t differ = 0;
  for (std::uint32_t range = 0; range < digest_ranges; ++range)
    if (said[range] != (known != nullptr ? (*known)[range] : range_digest{}))
      differ |= std::uint64_t{1} << range;
  return differ;
}

std::string encode(const list_request& request) {
  std::string bytes;
  append(bytes, request.holder);
  append(bytes, request.ranges);
  append(bytes, request.place);
  append(bytes, std::uint32_t{0});
  // Shards refuse list requests of any other size.
  PEERCACHE_ASSERT(bytes.size() == list_request_bytes);
  return bytes;
}

result<std::string> list_records(const shard& source, std::string_view request) {
  if (request.size() != list_request_bytes || read_at<std::uint32_t>(request, 28) != 0)
    return malformed("list request", request);
  const auto holder = read_at<incarnation>(request, 0);
  const auto ranges = read_at<std::uint64_t>(request, 16);
  auto place = read_at<std::uint32_t>(request, 24);
  std::string answer(list_header_bytes, '\0');
  const auto show = [&](const page_key& key, const page_location& location) {
    if (location.holder == holder && (ranges >> range_of(key.prefix()) & 1) != 0)
      append_withdraw(answer, {key, holder, location.gen, location.where});
  };
  constexpr auto enough = (limits::batch_pages_max - places_per_step) * wire::withdraw_record_bytes;
  for (std::uint32_t walked = 0; walked < places_max && answer.size() < enough;
       walked += places_per_step) {
    place = source.walk(place, places_per_step, show);
    if (place == 0)
      break;
  }
  PEERCACHE_ASSERT(answer.size() <=
                   list_header_bytes + limits::batch_pages_max * wire::withdraw_record_bytes);
  std::memcpy(answer.data(), &place, sizeof place);
  return answer;
}

result<listed_records> split_list(std::string_view answer) {
  if (answer.size() < list_header_bytes || read_at<std::uint32_t>(answer, 4) != 0)
    return malformed("list of records", answer);
  listed_records parts{read_at<std::uint32_t>(answer, 0), answer.substr(list_header_bytes)};
  withdraw_reader reader(parts.records);
  withdraw_record record;
  while (reader.next(record)) {
  }
  if (!reader.ok())
    return malformed("list of records", answer);
  return parts;
}

} // namespace peercache::directory
