#include "link/protocol/calls_wire.hpp"

#include "common/byte_codec.hpp"

namespace peercache::link {
namespace {

void write(byte_writer& out, std::string_view text) {
  out.number(static_cast<std::uint32_t>(text.size()));
  out.text(text);
}

std::string read_text(byte_reader& in) {
  return std::string(in.take(in.number<std::uint32_t>()));
}

template <class List, class Write>
void write_all(byte_writer& out, const List& all, Write&& write_one) {
  out.number(static_cast<std::uint32_t>(all.size()));
  for (const auto& one : all)
    write_one(one);
}

/// Reads the elements of a list, each of which takes at least one byte of what is left.
template <class Read>
void read_all(byte_reader& in, Read&& read_one) {
  const auto count = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i)
    read_one();
}

void write(byte_writer& out, const failed_page& page) {
  out.number(page.call);
  out.number(page.status);
  out.number(page.age_ms);
  write(out, page.digest);
  write(out, page.caller_key);
}

failed_page read_failed(byte_reader& in) {
  failed_page page;
  page.call = in.number<std::uint8_t>();
  page.status = in.number<std::uint8_t>();
  page.age_ms = in.number<std::uint64_t>();
  page.digest = read_text(in);
  page.caller_key = read_text(in);
  return page;
}

void write(byte_writer& out, const space_calls& space) {
  out.number(space.space);
  write(out, space.door);
  write_all(out, space.fields, [&](const std::string& field) { write(out, field); });
  write_all(out, space.facts, [&](const auto& fact) {
    write(out, fact.first);
    write(out, fact.second);
  });
  write_all(out, space.pages, [&](std::uint64_t pages) { out.number(pages); });
  write_all(out, space.unasked, [&](const auto& reason) {
    write(out, reason.first);
    out.number(reason.second);
  });
  write_all(out, space.failed, [&](const failed_page& page) { write(out, page); });
}

space_calls read_space(byte_reader& in) {
  space_calls space;
  space.space = in.number<std::uint64_t>();
  space.door = read_text(in);
  read_all(in, [&] { space.fields.push_back(read_text(in)); });
  read_all(in, [&] {
    auto name = read_text(in);
    space.facts[std::move(name)] = read_text(in);
  });
  read_all(in, [&] { space.pages.push_back(in.number<std::uint64_t>()); });
  read_all(in, [&] {
    auto reason = read_text(in);
    space.unasked[std::move(reason)] = in.number<std::uint64_t>();
  });
  read_all(in, [&] { space.failed.push_back(read_failed(in)); });
  return space;
}

void write(byte_writer& out, const slow_call& call) {
  out.number(call.call);
  out.number(call.waited_for);
  out.number(call.pages);
  out.number(call.failed);
  out.number(call.age_ms);
  out.number(call.took_us);
  out.number(call.waited_us);
  write(out, call.peer);
  write(out, call.digest);
}

slow_call read_slow(byte_reader& in) {
  slow_call call;
  call.call = in.number<std::uint8_t>();
  call.waited_for = in.number<std::uint8_t>();
  call.pages = in.number<std::uint32_t>();
  call.failed = in.number<std::uint32_t>();
  call.age_ms = in.number<std::uint64_t>();
  call.took_us = in.number<std::uint64_t>();
  call.waited_us = in.number<std::uint64_t>();
  call.peer = read_text(in);
  call.digest = read_text(in);
  return call;
}

space_use read_use(byte_reader& in) {
  space_use use;
  use.space = in.number<std::uint64_t>();
  read_all(in, [&] { use.pages.push_back(in.number<std::uint64_t>()); });
  return use;
}

} // namespace

std::string encode_spaces(const std::vector<space_calls>& spaces) {
  std::string bytes;
  byte_writer out(bytes);
  write_all(out, spaces, [&](const space_calls& space) { write(out, space); });
  return bytes;
}

bool decode_spaces(std::string_view bytes, std::vector<space_calls>& into) {
  into.clear();
  if (bytes.size() > spaces_bytes_max)
    return false;
  byte_reader in(bytes);
  read_all(in, [&] { into.push_back(read_space(in)); });
  if (!in.finished())
    into.clear();
  return in.finished();
}

std::string encode_watch(const call_report& from) {
  std::string bytes;
  byte_writer out(bytes);
  write_all(out, from.slow, [&](const slow_call& call) { write(out, call); });
  write_all(out, from.uses, [&](const space_use& use) {
    out.number(use.space);
    write_all(out, use.pages, [&](std::uint64_t pages) { out.number(pages); });
  });
  write(out, from.data_plane);
  return bytes;
}

bool decode_watch(std::string_view bytes, call_report& into) {
  into.slow.clear();
  into.uses.clear();
  into.data_plane.clear();
  if (bytes.size() > watch_bytes_max)
    return false;
  byte_reader in(bytes);
  read_all(in, [&] { into.slow.push_back(read_slow(in)); });
  read_all(in, [&] { into.uses.push_back(read_use(in)); });
  into.data_plane = read_text(in);
  if (in.finished())
    return true;
  into.slow.clear();
  into.uses.clear();
  into.data_plane.clear();
  return false;
}

} // namespace peercache::link
