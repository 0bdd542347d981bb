#include "discovery/view_difference.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/guards.hpp"
#include "common/limits.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace peercache::discovery {

namespace {

std::uint64_t digest_of(const view& what) {
  const auto bytes = encode_view(what);
  return checksum_of(std::as_bytes(std::span(bytes)));
}

template <class Index>
bool strictly_ascend(const std::vector<Index>& indices) noexcept {
  return std::adjacent_find(indices.begin(), indices.end(),
                            [](Index a, Index b) { return a >= b; }) == indices.end();
}

/// Sets `left` and `came` of the difference from `base` to `next`.
void compare_members(view_difference& change, const view& base, const view& next) {
  auto old = base.members.begin();
  const auto leave_before = [&](const node_id* id) {
    for (; old != base.members.end() && (id == nullptr || old->id < *id); ++old)
      change.left.push_back(static_cast<std::uint16_t>(old - base.members.begin()));
  };
  for (const auto& each : next.members) {
    leave_before(&each.id);
    const bool known = old != base.members.end() && old->id == each.id;
    if (!known || *old != each)
      change.came.push_back(each);
    if (known)
      ++old;
  }
  leave_before(nullptr);
}

/// Sets `gone_left` and `gone_came` of the difference from `base` to `next`. False when the gone of
/// `next` are not some of those of `base`, in their order, and others behind them.
bool compare_gone(view_difference& change, const view& base, const view& next) {
  auto stays = next.gone.begin();
  for (std::size_t i = 0; i < base.gone.size(); ++i)
    if (stays != next.gone.end() && *stays == base.gone[i])
      ++stays;
    else
      change.gone_left.push_back(static_cast<std::uint8_t>(i));
  change.gone_came.assign(stays, next.gone.end());
  return std::none_of(stays, next.gone.end(), [&base](const departed& each) {
    return base.find_gone(each.name) != nullptr;
  });
}

/// Returns the members of `base` without those that left, and with those that came. @pre no index
/// in `change.left` is beyond the end, and both lists ascend
std::vector<member> merged_members(const view_difference& change, const view& base) {
  std::vector<member> made;
  made.reserve(base.members.size() + change.came.size());
  auto left = change.left.begin();
  auto came = change.came.begin();
  for (std::size_t i = 0; i < base.members.size(); ++i) {
    const auto& old = base.members[i];
    for (; came != change.came.end() && came->id < old.id; ++came)
      made.push_back(*came);
    if (left != change.left.end() && *left == i)
      ++left;
    else if (came != change.came.end() && came->id == old.id)
      made.push_back(*came++);
    else
      made.push_back(old);
  }
  made.insert(made.end(), came, change.came.end());
  return made;
}

/// Returns the gone of `base` without those that are no longer listed, and with the new ones.
std::vector<departed> merged_gone(const view_difference& change, const view& base) {
  std::vector<departed> made;
  auto left = change.gone_left.begin();
  for (std::size_t i = 0; i < base.gone.size(); ++i)
    if (left != change.gone_left.end() && *left == i)
      ++left;
    else
      made.push_back(base.gone[i]);
  made.insert(made.end(), change.gone_came.begin(), change.gone_came.end());
  return made;
}

template <class Index>
std::vector<Index> read_indices(byte_reader& in, std::size_t count, std::size_t most) {
  std::vector<Index> read;
  if (count > most)
    in.fail();
  for (std::size_t i = 0; in.ok() && i < count; ++i)
    read.push_back(in.number<Index>());
  return read;
}

std::vector<member> read_members(byte_reader& in, std::size_t count, std::size_t most) {
  std::vector<member> read;
  if (count > most)
    in.fail();
  for (std::size_t i = 0; in.ok() && i < count; ++i)
    read.push_back(read_member(in));
  const auto out_of_order = [](const member& a, const member& b) { return a.id >= b.id; };
  if (std::adjacent_find(read.begin(), read.end(), out_of_order) != read.end())
    in.fail();
  return read;
}

} // namespace

std::optional<view_difference> difference_between(const view& base, const view& next) {
  if (base.term == 0 || !next.newer_than(base))
    return std::nullopt;
  view_difference change;
  change.base = base.stamp();
  change.stamp = next.stamp();
  compare_members(change, base, next);
  if (2 * change.came.size() >= next.members.size() || !compare_gone(change, base, next))
    return std::nullopt;
  for (const auto& name : next.masters) {
    const auto* master = next.find_name(name);
    PEERCACHE_ASSERT(master != nullptr);
    change.masters.push_back(static_cast<std::uint16_t>(master - next.members.data()));
  }
  if (next.former_masters != base.former_masters)
    change.former_masters = next.former_masters;
  change.digest = digest_of(next);
  return change;
}

std::optional<view> apply(const view_difference& change, const view& base) {
  if (base.stamp() != change.base && guard_on(guard::difference))
    return std::nullopt;
  if (!change.left.empty() && change.left.back() >= base.members.size())
    return std::nullopt;
  view made;
  made.term = change.stamp.term;
  made.version = change.stamp.version;
  made.issuer = change.stamp.issuer;
  made.members = merged_members(change, base);
  for (const auto index : change.masters) {
    if (index >= made.members.size())
      return std::nullopt;
    made.masters.push_back(made.members[index].name);
  }
  made.former_masters = change.former_masters ? *change.former_masters : base.former_masters;
  made.gone = merged_gone(change, base);
  if (!is_well_formed(made))
    return std::nullopt;
  if (digest_of(made) != change.digest && guard_on(guard::difference))
    return std::nullopt;
  return made;
}

std::string encode_difference(const view_difference& change) {
  std::string bytes;
  byte_writer out(bytes);
  write_difference(out, change);
  return bytes;
}

result<view> decode_told_view(std::string_view bytes, const view& known) {
  if (bytes.empty() || static_cast<std::uint8_t>(bytes.front()) != difference_mark)
    return decode_view(bytes);
  byte_reader in(bytes);
  const auto change = read_difference(in);
  if (!in.finished())
    return error{errc::invalid_argument, "an encoded difference of views is malformed"};
  auto made = apply(change, known);
  if (!made)
    return error{errc::not_found, "a difference is not to the view that is known"};
  return std::move(*made);
}

std::string encode_stamp(const view_stamp& stamp) {
  std::string bytes;
  byte_writer out(bytes);
  write_stamp(out, stamp);
  return bytes;
}

void write_difference(byte_writer& out, const view_difference& change) {
  out.number(difference_mark);
  write_stamp(out, change.base);
  write_stamp(out, change.stamp);
  out.number(change.digest);
  out.number(static_cast<std::uint16_t>(change.left.size()));
  for (const auto index : change.left)
    out.number(index);
  out.number(static_cast<std::uint16_t>(change.came.size()));
  for (const auto& each : change.came)
    write_member(out, each);
  out.number(static_cast<std::uint8_t>(change.masters.size()));
  for (const auto index : change.masters)
    out.number(index);
  out.number(static_cast<std::uint8_t>(change.former_masters.has_value()));
  if (change.former_masters) {
    out.number(static_cast<std::uint8_t>(change.former_masters->size()));
    for (const auto& each : *change.former_masters)
      write_member(out, each);
  }
  out.number(static_cast<std::uint8_t>(change.gone_left.size()));
  for (const auto index : change.gone_left)
    out.number(index);
  out.number(static_cast<std::uint8_t>(change.gone_came.size()));
  for (const auto& each : change.gone_came)
    write_departed(out, each);
}

view_difference read_difference(byte_reader& in) {
  view_difference change;
  const auto format = in.number<std::uint8_t>();
  change.base = read_stamp(in);
  change.stamp = read_stamp(in);
  change.digest = in.number<std::uint64_t>();
  if (format != difference_mark || change.base.term == 0 || change.stamp <= change.base)
    in.fail();
  const auto left = in.number<std::uint16_t>();
  change.left = read_indices<std::uint16_t>(in, left, limits::members_max);
  const auto came = in.number<std::uint16_t>();
  change.came = read_members(in, came, limits::members_max);
  const auto masters = in.number<std::uint8_t>();
  change.masters = read_indices<std::uint16_t>(in, masters, masters_max);
  if (in.boolean()) {
    const auto former = in.number<std::uint8_t>();
    change.former_masters = read_members(in, former, masters_max);
  }
  const auto gone_left = in.number<std::uint8_t>();
  change.gone_left = read_indices<std::uint8_t>(in, gone_left, limits::gone_members_max);
  const auto gone_came = in.number<std::uint8_t>();
  if (gone_came > limits::gone_members_max)
    in.fail();
  for (unsigned i = 0; in.ok() && i < gone_came; ++i)
    change.gone_came.push_back(read_departed(in));
  if (!strictly_ascend(change.left) || !strictly_ascend(change.gone_left))
    in.fail();
  return in.ok() ? change : view_difference{};
}

} // namespace peercache::discovery
