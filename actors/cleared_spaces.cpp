#include "actors/cleared_spaces.hpp"

#include "discovery/byte_codec.hpp"

#include <algorithm>
#include <utility>

namespace peercache::actors {
namespace {

using discovery::byte_reader;
using discovery::byte_writer;

/// Of what nodes tell each other and keep on disk; grows with any change of the bytes:
///
///     u8 version | u32 floor | u32 count | count × (u64 space, u32 epoch)
///                | u32 count | count × (u8 length, name, incarnation 16, u8 forgiven)
constexpr std::uint8_t encoding_version = 1;

/// Epochs count the clears of a space: higher ones come from nobody who keeps to the protocol, and
/// would leave no room for later clears.
constexpr epoch_number epoch_max = 0x7fffffff;

} // namespace

bool cleared_spaces::raise(space_id space, epoch_number epoch) {
  if (epoch > epoch_max || !table_.raise(space, epoch))
    return false;
  told_.clear();
  return true;
}

std::string cleared_spaces::encode() const {
  std::string bytes;
  byte_writer out(bytes);
  out.number(encoding_version);
  out.number(table_.floor());
  std::vector<std::pair<space_id, epoch_number>> spaces;
  table_.for_each([&](space_id space, epoch_number epoch) { spaces.emplace_back(space, epoch); });
  std::sort(spaces.begin(), spaces.end());
  out.number(static_cast<std::uint32_t>(spaces.size()));
  for (const auto& [space, epoch] : spaces) {
    out.number(space.value);
    out.number(epoch);
  }
  out.number(static_cast<std::uint32_t>(gone_.size()));
  for (const auto& [name, left] : gone_) {
    out.short_text(name);
    out.id(left.inc);
    out.number(static_cast<std::uint8_t>(left.forgiven));
  }
  return bytes;
}

result<bool> cleared_spaces::merge(std::string_view encoded) {
  byte_reader in(encoded);
  const bool known = in.number<std::uint8_t>() == encoding_version;
  auto highest = in.number<epoch_number>();
  const auto floor = highest;
  std::vector<std::pair<space_id, epoch_number>> spaces;
  for (auto left = in.number<std::uint32_t>(); left > 0 && in.ok(); --left) {
    const space_id space{in.number<std::uint64_t>()};
    spaces.emplace_back(space, in.number<epoch_number>());
    highest = std::max(highest, spaces.back().second);
  }
  std::map<std::string, departure> gone;
  for (auto left = in.number<std::uint32_t>(); left > 0 && in.ok(); --left) {
    const std::string name{in.short_text()};
    const auto inc = in.id();
    gone[name] = {inc, in.number<std::uint8_t>() != 0};
  }
  if (!known || !in.finished() || highest > epoch_max)
    return {errc::invalid_argument, "a list of cleared spaces of " +
                                        std::to_string(encoded.size()) +
                                        " bytes is damaged or of another version"};
  bool rose = table_.raise_floor(floor);
  for (const auto& [space, epoch] : spaces)
    rose = table_.raise(space, epoch) || rose;
  if (rose)
    told_.clear();
  take_departures(gone);
  return rose;
}

void cleared_spaces::take_departures(const std::map<std::string, departure>& theirs) {
  for (const auto& [name, left] : theirs) {
    if (const auto* back = view_.find_name(name); back != nullptr)
      continue;
    const auto [own, fresh] = gone_.try_emplace(name, left);
    if (fresh)
      continue;
    // Two processes may have been lost under one name: each has to be forgiven.
    auto& known = own->second;
    known.forgiven =
        known.inc == left.inc ? known.forgiven || left.forgiven : known.forgiven && left.forgiven;
    known.inc = std::max(known.inc, left.inc);
  }
}

void cleared_spaces::adopt(const discovery::view& view) {
  for (const auto& member : view_.members)
    if (member.inc != self_ && view.find_name(member.name) == nullptr)
      gone_[member.name] = {member.inc, false};
  view_ = view;
  std::erase_if(gone_, [&](const auto& left) { return view.find_name(left.first) != nullptr; });
  const auto left_view = [&](const incarnation& inc) { return view.find(inc) == nullptr; };
  std::erase_if(told_, left_view);
  std::erase_if(heard_, left_view);
  look_whether_caught_up();
}

std::vector<std::string> cleared_spaces::missing() const {
  std::vector<std::string> names;
  for (const auto& [name, left] : gone_)
    if (!left.forgiven && names.size() < missing_max)
      names.push_back(name);
  return names;
}

void cleared_spaces::forgive(const std::string& name) {
  if (const auto found = gone_.find(name); found != gone_.end())
    found->second.forgiven = true;
}

std::string cleared_spaces::tell(const incarnation& whom) const {
  std::string bytes;
  byte_writer out(bytes);
  out.id(self_);
  out.number(static_cast<std::uint8_t>(view_.find(whom) != nullptr));
  out.number(static_cast<std::uint8_t>(caught_up_));
  out.text(encode());
  return bytes;
}

result<cleared_spaces::telling> cleared_spaces::decode_telling(std::string_view bytes) {
  byte_reader in(bytes);
  telling said;
  said.from = in.id();
  said.welcome = in.number<std::uint8_t>() != 0;
  said.caught_up = in.number<std::uint8_t>() != 0;
  if (!in.ok())
    return {errc::invalid_argument, "what a node tells of cleared spaces is cut off"};
  said.spaces = bytes.substr(sizeof(incarnation) + 2);
  return said;
}

result<bool> cleared_spaces::hear(const telling& said) {
  auto rose = merge(said.spaces);
  if (!rose)
    return rose;
  if (said.spaces == encode())
    told_.insert(said.from); // It knows all that is known here.
  // Whoever does not know yet that this node is a member would not ask it at a clear: what it tells
  // may be older than a clear that has succeeded without this node.
  if (said.welcome) {
    heard_.insert(said.from);
    caught_up_ = caught_up_ || said.caught_up;
    look_whether_caught_up();
  }
  return rose;
}

void cleared_spaces::look_whether_caught_up() {
  const bool member = view_.find(self_) != nullptr;
  caught_up_ = caught_up_ || (member && std::all_of(view_.members.begin(), view_.members.end(),
                                                    [this](const discovery::member& other) {
                                                      return other.inc == self_ ||
                                                             heard_.contains(other.inc);
                                                    }));
}

} // namespace peercache::actors
