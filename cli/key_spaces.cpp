#include "cli/key_spaces.hpp"

#include "common/printable.hpp"

#include <cstring>
#include <fmt/format.h>
#include <optional>

namespace peercache::cli {
namespace {

/// Number of a key space's fields that are shown: an engine's key space has a dozen, some of them
/// long.
constexpr std::size_t fields_shown = 8;

std::optional<page_key> unpacked(std::string_view packed) {
  page_key key;
  if (packed.size() != key.bytes.size())
    return std::nullopt;
  std::memcpy(key.bytes.data(), packed.data(), packed.size());
  return key;
}

} // namespace

std::string digest_text(std::string_view packed) {
  const auto key = unpacked(packed);
  return key ? to_string(*key) : std::string{};
}

space_id space_in(std::string_view packed) {
  const auto key = unpacked(packed);
  return key ? space_of(*key) : space_id{};
}

std::string space_text(const link::session_space& space) {
  if (space.fields.empty())
    return "space " + to_string(space_id{space.space});
  auto text = peer_text(space.door);
  for (std::size_t i = 0; i < space.fields.size() && i < fields_shown; ++i)
    text += (i == 0 ? " " : ", ") + peer_text(space.fields[i]);
  return text + (space.fields.size() > fields_shown ? ", ..." : "");
}

void space_names::add(const link::calls_report& told) {
  for (const auto& client : told.clients)
    for (const auto& each : client.spaces)
      if (!each.fields.empty())
        names_[each.space] = peer_text(each.door) + " " + peer_text(each.fields.front());
}

std::string space_names::name_of(std::uint64_t space) const {
  const auto known = names_.find(space);
  return known != names_.end() ? known->second : "space " + to_string(space_id{space});
}

} // namespace peercache::cli
