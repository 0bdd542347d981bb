#include "actors/clearing/cleared_spaces.hpp"

#include "common/assert.hpp"
#include "common/byte_codec.hpp"

#include <algorithm>
#include <utility>

namespace peercache::actors {
namespace {

/// Version of the bytes that nodes tell each other and keep on disk; grows with any change of them:
///
///     u8 version | u32 floor | u32 count | count × (u64 space, u32 epoch)
///                | u32 count | count × (u8 length, name, u8 length, host, u16 port,
///                                   incarnation 16, u8 forgiven)
///
/// On disk a record of the node's life follows; in a telling that record comes first
/// (actors/life_record.hpp).
constexpr std::uint8_t encoding_version = 2;

/// Highest valid epoch. No node that keeps to the protocol sends a higher epoch, which would leave
/// no room for later clears.
constexpr epoch_number epoch_max = 0x7fffffff;

/// Bytes of a telling before the life record: sender, five flags, stamp of a view, length.
constexpr std::size_t head_bytes = 16 + 5 + 8 + 8 + 16 + 4;

/// Unix time of 2026-01-01 00:00 UTC. An epoch from the clock counts the seconds since then, for 34
/// years; later it stays at `clock_epoch_max`, and each clear counts one up.
constexpr std::uint64_t first_second = 1'767'225'600;
constexpr std::uint64_t clock_epoch_max = 0x3fffffff;
static_assert(clock_epoch_max < epoch_max && epoch_max < storage::epoch_table::no_epoch,
              "the clock leaves room to count on, and no epoch looks like none");

epoch_number clock_epoch(std::uint64_t unix_s) noexcept {
  const auto seconds = unix_s > first_second ? unix_s - first_second : 0;
  return static_cast<epoch_number>(std::min(seconds, clock_epoch_max));
}

/// Returns the epoch that a space has by the encoded bytes; 0 when the bytes are damaged.
epoch_number epoch_in(std::string_view encoded, space_id wanted) {
  byte_reader in(encoded);
  in.number<std::uint8_t>();
  auto epoch = in.number<epoch_number>();
  for (auto left = in.number<std::uint32_t>(); left > 0 && in.ok(); --left) {
    const space_id space{in.number<std::uint64_t>()};
    const auto own = in.number<epoch_number>();
    if (space == wanted)
      epoch = std::max(epoch, own);
  }
  return in.ok() ? epoch : 0;
}

discovery::view_stamp read_stamp(byte_reader& in) {
  discovery::view_stamp stamp;
  stamp.term = in.number<std::uint64_t>();
  stamp.version = in.number<std::uint64_t>();
  stamp.issuer = in.id();
  return stamp;
}

} // namespace

epoch_number cleared_spaces::next_epoch(space_id space, std::uint64_t unix_s) const noexcept {
  const auto known = table_.epoch_of(space);
  return std::max(known == storage::epoch_table::no_epoch ? 0 : known + 1, clock_epoch(unix_s));
}

std::size_t cleared_spaces::count() const {
  std::size_t spaces = 0;
  table_.for_each([&](space_id, epoch_number) { ++spaces; });
  return spaces;
}

bool cleared_spaces::raise(space_id space, epoch_number epoch) {
  if (epoch > epoch_max || !table_.raise(space, epoch))
    return false;
  told_.clear();
  return true;
}

std::string cleared_spaces::encode_for_disk() const {
  auto gone = gone_;
  for (const auto& member : view_.members)
    if (member.inc != self_)
      gone[place_of(member)] = {member.inc, false};
  return encode(gone) + encode_record(life());
}

std::string cleared_spaces::encode(const departures& gone) const {
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
  out.number(static_cast<std::uint32_t>(gone.size()));
  for (const auto& [at, left] : gone) {
    out.short_text(at.name);
    out.short_text(at.address.host);
    out.number(at.address.port);
    out.id(left.inc);
    out.number(static_cast<std::uint8_t>(left.forgiven));
  }
  return bytes;
}

result<bool> cleared_spaces::merge(std::string_view encoded) {
  return take_in(encoded, nullptr);
}

result<void> cleared_spaces::recall(std::string_view from_disk) {
  life_record before;
  if (auto known = take_in(from_disk, &before); !known)
    return known.error();
  recall(before);
  return {};
}

result<bool> cleared_spaces::take_in(std::string_view encoded, life_record* behind) {
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
  departures gone;
  for (auto left = in.number<std::uint32_t>(); left > 0 && in.ok(); --left) {
    place at;
    at.name = in.short_text();
    at.address.host = in.short_text();
    at.address.port = in.number<std::uint16_t>();
    const auto inc = in.id();
    gone[at] = {inc, in.number<std::uint8_t>() != 0};
  }
  if (behind != nullptr)
    *behind = read_record(in);
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

cleared_spaces::place cleared_spaces::place_of(const discovery::member& who) {
  return {who.name, discovery::control_endpoint(who)};
}

bool cleared_spaces::is_back(const place& at, const discovery::view& view) noexcept {
  const auto* now = view.find_name(at.name);
  return now != nullptr && now->host == at.address.host && now->control_port == at.address.port;
}

/// Returns the name of a place for people, with its address only where another member has the name.
std::string cleared_spaces::label_of(const place& at) const {
  if (view_.find_name(at.name) == nullptr)
    return at.name;
  return at.name + " at " + at.address.host + ":" + std::to_string(at.address.port);
}

/// Notes a former member. When `missing_max` are noted, a forgiven one makes room; if none is
/// forgiven, the new one is left out, for the noted ones are enough to say that no clear is
/// certain.
void cleared_spaces::note_departure(const place& at, const departure& left) {
  if (!gone_.contains(at) && gone_.size() >= missing_max) {
    const auto forgiven = std::find_if(gone_.begin(), gone_.end(),
                                       [](const auto& each) { return each.second.forgiven; });
    if (forgiven == gone_.end())
      return;
    gone_.erase(forgiven);
  }
  gone_[at] = left;
  PEERCACHE_ASSERT(gone_.size() <= missing_max); // The limit holds, whatever other nodes tell.
}

void cleared_spaces::take_departures(const departures& theirs) {
  for (const auto& [at, left] : theirs) {
    if (is_back(at, view_))
      continue;
    const auto own = gone_.find(at);
    if (own == gone_.end()) {
      note_departure(at, left);
      continue;
    }
    // Two processes may have been lost at one place: both must be forgiven.
    auto& known = own->second;
    known.forgiven =
        known.inc == left.inc ? known.forgiven || left.forgiven : known.forgiven && left.forgiven;
    known.inc = std::max(known.inc, left.inc);
  }
}

void cleared_spaces::adopt(const discovery::view& view) {
  for (const auto& member : view_.members)
    if (const auto at = place_of(member); member.inc != self_ && !is_back(at, view))
      note_departure(at, {member.inc, leaving_.contains(member.inc)});
  view_ = view;
  std::erase_if(gone_, [&](const auto& left) { return is_back(left.first, view); });
  const auto left_view = [&](const incarnation& inc) { return view.find(inc) == nullptr; };
  std::erase_if(told_, left_view);
  std::erase_if(heard_, left_view);
  std::erase_if(leaving_, left_view);
  std::erase_if(ending_, left_view);
  std::erase_if(answers_, [&](const auto& each) { return left_view(each.first); });
  look_whether_caught_up();
}

std::vector<std::string> cleared_spaces::missing() const {
  std::vector<std::string> names;
  for (const auto& [at, left] : gone_)
    if (!left.forgiven && names.size() < missing_max)
      names.push_back(label_of(at));
  return names;
}

void cleared_spaces::forgive(const std::string& name) {
  for (auto& [at, left] : gone_)
    left.forgiven = left.forgiven || at.name == name || label_of(at) == name;
}

std::vector<std::string> cleared_spaces::unaware(space_id space, epoch_number epoch) const {
  std::vector<std::string> names;
  for (const auto& member : view_.members) {
    if (member.inc == self_)
      continue;
    const auto said = answers_.find(member.inc);
    if (said == answers_.end() || said->second.stamp != view_.stamp() || !said->second.done ||
        epoch_in(said->second.spaces, space) < epoch)
      names.push_back(member.name);
  }
  return names;
}

std::string cleared_spaces::tell(const incarnation& whom, bool done, bool leaves) const {
  std::string bytes;
  byte_writer out(bytes);
  out.id(self_);
  // `welcome` is false if this node leaves: clears go on without this node, so it may not know all
  // of them.
  out.number(static_cast<std::uint8_t>(!leaves && view_.find(whom) != nullptr));
  out.number(static_cast<std::uint8_t>(caught_up_));
  out.number(static_cast<std::uint8_t>(done));
  out.number(static_cast<std::uint8_t>(leaves));
  out.number(static_cast<std::uint8_t>(ends_));
  const auto stamp = view_.stamp();
  out.number(stamp.term);
  out.number(stamp.version);
  out.id(stamp.issuer);
  const auto record = encode_record(life_);
  out.number(static_cast<std::uint32_t>(record.size()));
  PEERCACHE_ASSERT(bytes.size() == head_bytes); // `decode_telling` looks for the life record here.
  out.text(record);
  out.text(encode());
  return bytes;
}

result<cleared_spaces::telling> cleared_spaces::decode_telling(std::string_view bytes) {
  byte_reader in(bytes);
  telling said;
  said.from = in.id();
  said.welcome = in.number<std::uint8_t>() != 0;
  said.caught_up = in.number<std::uint8_t>() != 0;
  said.done = in.number<std::uint8_t>() != 0;
  said.leaves = in.number<std::uint8_t>() != 0;
  said.ends = in.number<std::uint8_t>() != 0;
  said.stamp = read_stamp(in);
  const auto record_bytes = in.number<std::uint32_t>();
  byte_reader record(in.take(record_bytes));
  said.life = read_record(record);
  if (!in.ok() || !record.finished())
    return {errc::invalid_argument, "what a node tells of cleared spaces is cut off"};
  said.spaces = bytes.substr(head_bytes + record_bytes);
  return said;
}

result<bool> cleared_spaces::hear(const telling& said) {
  auto rose = merge(said.spaces);
  if (!rose)
    return rose;
  if (caught_up_ && said.caught_up)
    take_lineage(said.life.lineage);
  if (said.spaces == encode() && said.life.lineage == life_.lineage)
    told_.insert(said.from);            // The sender knows what this node knows.
  if (view_.find(said.from) != nullptr) // `answers_` has only members.
    answers_[said.from] = {said.stamp, said.spaces, said.done, said.caught_up, said.life};
  hear_goodbye(said);
  // A sender that does not have this node in its view may not know a clear that has succeeded
  // without this node.
  if (said.welcome) {
    heard_.insert(said.from);
    if (!caught_up_ && said.caught_up && knows_what_was_missed(said))
      catch_up(said.life.lineage);
    look_whether_caught_up();
  }
  return rose;
}

void cleared_spaces::hear_goodbye(const telling& said) {
  const bool member = view_.find(said.from) != nullptr;
  if (member && said.ends)
    ending_.insert(said.from);
  if (member && said.leaves)
    leaving_.insert(said.from);
  else if (said.leaves)
    for (auto& [at, left] : gone_)
      left.forgiven = left.forgiven || left.inc == said.from;
}

void cleared_spaces::wait_no_longer(std::uint64_t unix_s) {
  auto floor = std::max(table_.floor() + 1, clock_epoch(unix_s));
  table_.for_each([&](space_id, epoch_number epoch) { floor = std::max(floor, epoch + 1); });
  table_.raise_floor(std::min(floor, epoch_max));
  told_.clear();
  catch_up({});
}

} // namespace peercache::actors
