#include "directory/wire.hpp"

#include "common/assert.hpp"

#include <bit>
#include <cstring>

namespace peercache::directory {

static_assert(std::endian::native == std::endian::little, "records are copied as they lie");

namespace {

template <class T>
char* put(char* at, const T& value) noexcept {
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

template <class T>
const char* get(const char* at, T& value) noexcept {
  std::memcpy(&value, at, sizeof value);
  return at + sizeof value;
}

bool all_zero(const char* at, std::size_t bytes) noexcept {
  for (std::size_t i = 0; i < bytes; ++i)
    if (at[i] != 0)
      return false;
  return true;
}

char* put_location(char* at, const page_location& from) noexcept {
  at = put(at, from.node.value);
  at = put(at, from.holder.high);
  at = put(at, from.holder.low);
  at = put(at, from.gen.value);
  at = put(at, from.checksum);
  at = put(at, from.slot.value);
  at = put(at, from.length_bytes);
  at = put(at, static_cast<std::uint8_t>(from.where));
  at = put(at, static_cast<std::uint8_t>(from.mirrored));
  std::memset(at, 0, 2);
  return at + 2;
}

/// Reads a location. False when a field is out of its range. @pre `wire::location_bytes` can be
/// read
bool get_location(const char* at, page_location& to) noexcept {
  std::uint8_t where;
  std::uint8_t mirrored;
  at = get(at, to.node.value);
  at = get(at, to.holder.high);
  at = get(at, to.holder.low);
  at = get(at, to.gen.value);
  at = get(at, to.checksum);
  at = get(at, to.slot.value);
  at = get(at, to.length_bytes);
  at = get(at, where);
  at = get(at, mirrored);
  to.where = static_cast<tier>(where);
  to.mirrored = mirrored != 0;
  return where <= static_cast<std::uint8_t>(tier::disk) && mirrored <= 1 && all_zero(at, 2) &&
         to.holder != incarnation{} && to.length_bytes > 0 &&
         to.length_bytes <= limits::page_bytes_max;
}

template <class Record>
constexpr std::size_t record_bytes = 0;
template <>
constexpr std::size_t record_bytes<publish_record> = wire::publish_record_bytes;
template <>
constexpr std::size_t record_bytes<withdraw_record> = wire::withdraw_record_bytes;
template <>
constexpr std::size_t record_bytes<page_key> = wire::key_bytes;

bool get_record(const char* at, publish_record& out) noexcept {
  at = get(at, out.key);
  if (!get_location(at, out.location))
    return false;
  at += wire::location_bytes;
  auto mode = static_cast<std::uint8_t>(*at);
  out.mode = static_cast<publish_mode>(mode);
  return mode <= static_cast<std::uint8_t>(publish_mode::if_absent) && all_zero(at + 1, 3);
}

bool get_record(const char* at, withdraw_record& out) noexcept {
  at = get(at, out.key);
  at = get(at, out.holder.high);
  at = get(at, out.holder.low);
  at = get(at, out.gen.value);
  const auto where = static_cast<std::uint8_t>(*at);
  out.where = static_cast<tier>(where);
  return out.holder != incarnation{} && where <= static_cast<std::uint8_t>(tier::disk) &&
         all_zero(at + 1, 7);
}

bool get_record(const char* at, page_key& out) noexcept {
  get(at, out);
  return true;
}

} // namespace

error malformed(std::string_view what, std::string_view bytes) {
  return {errc::invalid_argument,
          "a " + std::string(what) + " of " + std::to_string(bytes.size()) + " bytes is malformed"};
}

void append_publish(std::string& batch, const publish_record& record) {
  char bytes[wire::publish_record_bytes];
  auto* at = put(bytes, record.key);
  at = put_location(at, record.location);
  at = put(at, static_cast<std::uint8_t>(record.mode));
  std::memset(at, 0, 3);
  batch.append(bytes, sizeof bytes);
}

void append_withdraw(std::string& batch, const withdraw_record& record) {
  char bytes[wire::withdraw_record_bytes];
  auto* at = put(bytes, record.key);
  at = put(at, record.holder.high);
  at = put(at, record.holder.low);
  at = put(at, record.gen.value);
  put(at, static_cast<std::uint64_t>(record.where));
  batch.append(bytes, sizeof bytes);
}

void append_lookup(std::string& batch, const page_key& key) {
  batch.append(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size());
}

void append_answer(std::string& answer, std::span<const page_location> locations) {
  PEERCACHE_ASSERT(locations.size() <= limits::locations_per_key_max);
  char bytes[1 + limits::locations_per_key_max * wire::location_bytes];
  auto* at = put(bytes, static_cast<std::uint8_t>(locations.size()));
  for (const auto& location : locations)
    at = put_location(at, location);
  answer.append(bytes, static_cast<std::size_t>(at - bytes));
}

void append_not_mine(std::string& answer, const view_number& by) {
  char bytes[1 + sizeof by];
  auto* at = put(bytes, wire::not_mine);
  at = put(at, by.term);
  put(at, by.version);
  answer.append(bytes, sizeof bytes);
}

template <class Record>
batch_reader<Record>::batch_reader(std::string_view batch) noexcept : rest_(batch) {
  auto count = batch.size() / record_bytes<Record>;
  ok_ = batch.size() % record_bytes<Record> == 0 && count <= limits::batch_pages_max;
  count_ = ok_ ? count : 0;
}

template <class Record>
bool batch_reader<Record>::next(Record& out) noexcept {
  if (!ok_ || rest_.empty())
    return false;
  ok_ = get_record(rest_.data(), out);
  rest_.remove_prefix(record_bytes<Record>);
  return ok_;
}

template class batch_reader<publish_record>;
template class batch_reader<withdraw_record>;
template class batch_reader<page_key>;

bool answer_reader::next(std::span<page_location, limits::locations_per_key_max> out,
                         std::size_t& count) noexcept {
  count = 0;
  if (!ok_ || rest_.empty())
    return false;
  std::size_t claimed = static_cast<std::uint8_t>(rest_.front());
  rest_.remove_prefix(1);
  not_mine_ = claimed == wire::not_mine;
  if (not_mine_) {
    ok_ = rest_.size() >= sizeof view_;
    if (ok_)
      get(get(rest_.data(), view_.term), view_.version);
    rest_.remove_prefix(ok_ ? sizeof view_ : 0);
    return ok_;
  }
  ok_ = claimed <= limits::locations_per_key_max && claimed * wire::location_bytes <= rest_.size();
  for (std::size_t i = 0; ok_ && i < claimed; ++i) {
    ok_ = get_location(rest_.data(), out[i]);
    rest_.remove_prefix(wire::location_bytes);
  }
  count = ok_ ? claimed : 0;
  return ok_;
}

} // namespace peercache::directory
