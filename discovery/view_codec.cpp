#include "discovery/view_codec.hpp"

#include "common/assert.hpp"
#include "common/limits.hpp"

#include <algorithm>

namespace peercache::discovery {

static_assert(limits::node_name_bytes_max <= 255 && host_bytes_max <= 255, "lengths are one byte");
static_assert(limits::members_max <= 65535 && masters_max <= 255);
static_assert(limits::gone_members_max <= 255);

namespace {

template <class T>
result<T> decoded(const byte_reader& in, T value, std::string_view what) {
  if (!in.finished())
    return error{errc::invalid_argument, "an encoded " + std::string(what) + " is malformed"};
  return value;
}

bool ids_ascend(const std::vector<member>& members) noexcept {
  return std::adjacent_find(members.begin(), members.end(), [](const member& a, const member& b) {
           return a.id >= b.id;
         }) == members.end();
}

/// Whether no two of `members` have the same incarnation.
bool processes_differ(const std::vector<member>& members) {
  std::vector<incarnation> all;
  all.reserve(members.size());
  for (const auto& each : members)
    all.push_back(each.inc);
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

/// Whether the masters of `what` are different members.
bool masters_are_members(const view& what) {
  for (std::size_t i = 0; i < what.masters.size(); ++i) {
    const auto& name = what.masters[i];
    const auto before = what.masters.begin() + static_cast<std::ptrdiff_t>(i);
    if (what.find_name(name) == nullptr || std::find(what.masters.begin(), before, name) != before)
      return false;
  }
  return true;
}

/// Whether the gone of `what` have different names, none of them a member's.
bool gone_are_gone(const view& what) {
  return std::all_of(what.gone.begin(), what.gone.end(), [&what](const departed& each) {
    return what.find_name(each.name) == nullptr && what.find_gone(each.name) == &each;
  });
}

void read_masters(byte_reader& in, view& to) {
  auto count = in.number<std::uint8_t>();
  for (unsigned i = 0; in.ok() && i < count; ++i) {
    std::size_t index = in.number<std::uint16_t>();
    if (index >= to.members.size())
      in.fail();
    else
      to.masters.push_back(to.members[index].name);
  }
}

} // namespace

bool is_printable_name(std::string_view name) noexcept {
  return !name.empty() &&
         std::none_of(name.begin(), name.end(), [](char c) { return c <= ' ' || c > '~'; });
}

void write_member(byte_writer& out, const member& who) {
  PEERCACHE_ASSERT(who.id == node_id_of(who.name));
  out.short_text(who.name);
  out.short_text(who.host);
  out.id(who.inc);
  out.number(who.control_port);
  out.number(who.data_port);
  out.number(who.http_port);
  out.number(who.lookup_port);
  out.number(who.rails);
  out.number(static_cast<std::uint8_t>(who.draining));
}

member read_member(byte_reader& in) {
  member who;
  who.name = in.short_text();
  who.id = node_id_of(who.name);
  who.host = in.short_text();
  who.inc = in.id();
  who.control_port = in.number<std::uint16_t>();
  who.data_port = in.number<std::uint16_t>();
  who.http_port = in.number<std::uint16_t>();
  who.lookup_port = in.number<std::uint16_t>();
  who.rails = in.number<std::uint8_t>();
  const auto draining = in.number<std::uint8_t>();
  who.draining = draining != 0;
  if (!is_printable_name(who.name) || !is_printable_name(who.host) || who.inc == incarnation{} ||
      draining > 1)
    in.fail();
  return who;
}

void write_departed(byte_writer& out, const departed& who) {
  out.short_text(who.name);
  out.short_text(who.host);
  out.number(who.control_port);
  out.number(who.since_ms);
  out.number(static_cast<std::uint8_t>(who.why));
}

departed read_departed(byte_reader& in) {
  departed who;
  who.name = in.short_text();
  who.host = in.short_text();
  who.control_port = in.number<std::uint16_t>();
  who.since_ms = in.number<std::uint64_t>();
  const auto why = in.number<std::uint8_t>();
  who.why = static_cast<departure>(why);
  if (!is_printable_name(who.name) || !is_printable_name(who.host) ||
      why > static_cast<std::uint8_t>(departure::replaced))
    in.fail();
  return who;
}

void write_stamp(byte_writer& out, const view_stamp& stamp) {
  out.number(stamp.term);
  out.number(stamp.version);
  out.id(stamp.issuer);
}

view_stamp read_stamp(byte_reader& in) {
  view_stamp stamp;
  stamp.term = in.number<std::uint64_t>();
  stamp.version = in.number<std::uint64_t>();
  stamp.issuer = in.id();
  if (stamp.term > term_max || stamp.version > term_max)
    in.fail();
  return stamp;
}

bool is_well_formed(const view& what) {
  if (what.members.size() > limits::members_max || what.masters.size() > masters_max ||
      what.former_masters.size() > masters_max || what.gone.size() > limits::gone_members_max ||
      what.term > term_max || what.version > term_max)
    return false;
  // A view with members has a term and masters, and "no view" (term 0) has neither; a mixture of
  // the two is malformed.
  const bool nobody = what.members.empty();
  if (nobody != what.masters.empty() || nobody != (what.term == 0) ||
      (nobody && !(what.former_masters.empty() && what.gone.empty())))
    return false;
  return ids_ascend(what.members) && processes_differ(what.members) && masters_are_members(what) &&
         ids_ascend(what.former_masters) && processes_differ(what.former_masters) &&
         gone_are_gone(what);
}

void write_view(byte_writer& out, const view& what) {
  PEERCACHE_ASSERT(what.members.size() <= limits::members_max);
  PEERCACHE_ASSERT(what.masters.size() <= masters_max);
  // The index of each master is found by a binary search.
  PEERCACHE_ASSERT(ids_ascend(what.members));
  out.number(view_format);
  out.number(what.term);
  out.number(what.version);
  out.id(what.issuer);
  out.number(static_cast<std::uint16_t>(what.members.size()));
  for (const auto& m : what.members)
    write_member(out, m);
  out.number(static_cast<std::uint8_t>(what.masters.size()));
  for (const auto& name : what.masters) {
    const auto* m = what.find_name(name);
    PEERCACHE_ASSERT(m != nullptr);
    out.number(static_cast<std::uint16_t>(m - what.members.data()));
  }
  PEERCACHE_ASSERT(what.former_masters.size() <= masters_max);
  out.number(static_cast<std::uint8_t>(what.former_masters.size()));
  for (const auto& m : what.former_masters)
    write_member(out, m);
  PEERCACHE_ASSERT(what.gone.size() <= limits::gone_members_max);
  out.number(static_cast<std::uint8_t>(what.gone.size()));
  for (const auto& each : what.gone)
    write_departed(out, each);
}

view read_view(byte_reader& in) {
  view to;
  auto format = in.number<std::uint8_t>();
  to.term = in.number<std::uint64_t>();
  to.version = in.number<std::uint64_t>();
  to.issuer = in.id();
  auto count = in.number<std::uint16_t>();
  if (format != view_format || count > limits::members_max)
    in.fail();
  // `to.members` reserves no memory in advance: a count from outside is not to be trusted, so
  // memory grows only with members that the bytes really have.
  for (unsigned i = 0; in.ok() && i < count; ++i)
    to.members.push_back(read_member(in));
  if (in.ok())
    read_masters(in, to);
  const auto former = in.number<std::uint8_t>();
  for (unsigned i = 0; in.ok() && i < former; ++i)
    to.former_masters.push_back(read_member(in));
  const auto gone = in.number<std::uint8_t>();
  for (unsigned i = 0; in.ok() && i < gone; ++i)
    to.gone.push_back(read_departed(in));
  if (!in.ok() || !is_well_formed(to)) {
    in.fail();
    return {};
  }
  return to;
}

std::string encode_member(const member& who) {
  std::string bytes;
  byte_writer out(bytes);
  write_member(out, who);
  return bytes;
}

result<member> decode_member(std::string_view bytes) {
  byte_reader in(bytes);
  auto who = read_member(in);
  return decoded(in, std::move(who), "member");
}

std::string encode_view(const view& what) {
  std::string bytes;
  bytes.reserve(64 + what.members.size() * 64);
  byte_writer out(bytes);
  write_view(out, what);
  return bytes;
}

result<view> decode_view(std::string_view bytes) {
  byte_reader in(bytes);
  auto what = read_view(in);
  return decoded(in, std::move(what), "view");
}

} // namespace peercache::discovery
