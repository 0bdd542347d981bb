#include "tests/scenario/oracle.hpp"

#include "discovery/view_codec.hpp"

#include <cstring>
#include <functional>

namespace peercache::scenario {
namespace {

constexpr std::uint64_t odd_factor = 0x9e3779b97f4a7c15ull;

std::uint64_t word_at(std::uint64_t put, std::size_t position) {
  return put + position * odd_factor;
}

std::string named(const discovery::view_stamp& stamp) {
  return std::to_string(stamp.term) + "." + std::to_string(stamp.version);
}

} // namespace

std::uint64_t oracle::put(const page_key& key) {
  keys_.push_back(key);
  return keys_.size();
}

void oracle::offers(const incarnation& owner, std::uint64_t put) {
  offered_[owner].insert(put);
}

void oracle::write(std::span<std::byte> bytes, std::uint64_t put) {
  for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
    auto word = word_at(put, i);
    std::memcpy(bytes.data() + 8 * i, &word, 8);
  }
}

void oracle::judge_hit(const page_key& key, const incarnation& owner,
                       std::span<const std::byte> bytes) {
  std::uint64_t put = 0;
  std::memcpy(&put, bytes.data(), 8);
  for (std::size_t i = 0; i < bytes.size() / 8; ++i) {
    auto expected = word_at(put, i);
    if (std::memcmp(bytes.data() + 8 * i, &expected, 8) != 0)
      return fault("wrong bytes: a page of two fillings");
  }
  if (put == 0 || put > keys_.size())
    return fault("wrong bytes: nobody put them");
  if (keys_[put - 1] != key)
    return fault("wrong bytes: those of another key");
  if (offered_[owner].count(put) == 0)
    return fault("wrong bytes: of another process than the record names");
}

void oracle::judge_view(const discovery::view& adopted, const discovery::view_stamp& before) {
  if (adopted.stamp() <= before)
    fault("view " + named(adopted.stamp()) + " came after " + named(before));
  auto hash = std::hash<std::string>{}(discovery::encode_view(adopted));
  if (views_.emplace(adopted.stamp(), hash).first->second != hash)
    fault("two views " + named(adopted.stamp()));
}

void oracle::fault(std::string what) {
  if (faults_.size() < 8)
    faults_.push_back(std::move(what));
}

} // namespace peercache::scenario
