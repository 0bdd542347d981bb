#include "tests/support/history.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>

namespace peercache::tests {
namespace {

/// Returns a hash of a page's bytes. The product's checksums are not used, because tests check
/// them.
std::uint64_t digest_of(std::span<const std::byte> bytes) {
  std::uint64_t digest = bytes.size() + 1;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof digest) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof word, bytes.size() - at));
    digest = (digest ^ word) * 0xff51afd7ed558ccdull;
    digest ^= digest >> 29;
  }
  return digest;
}

/// The bytes of a page as three columns: version, length and content.
std::string shown(std::span<const std::byte> bytes) {
  std::uint64_t version = 0;
  if (!bytes.empty())
    std::memcpy(&version, bytes.data(), std::min(sizeof version, bytes.size()));
  return fmt::format("{:x} {} {:016x}", version, bytes.size(), digest_of(bytes));
}

/// Returns a key's text in the history: 20 digits that differ for all keys of a run.
std::string shown(const page_key& key) {
  std::string text;
  for (std::size_t i = 0; i < 10; ++i)
    text += fmt::format("{:02x}", key.bytes[i]);
  return text;
}

} // namespace

result<std::unique_ptr<history>> history::create(const std::string& path, time_point begin) {
  file_ptr file(std::fopen(path.c_str(), "we"));
  if (!file)
    return {errc::io_failed, "cannot write the history '" + path + "': " + std::strerror(errno)};
  std::unique_ptr<history> made(new history(std::move(file), begin));
  made->write("history 1\n");
  return made;
}

history::~history() {
  write(fmt::format("end {}\n", end_us_));
}

std::int64_t history::told(time_point when) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(when - begin_).count();
  std::lock_guard guard(lock_);
  end_us_ = std::max<std::int64_t>(end_us_, us);
  return us;
}

void history::write(const std::string& line) {
  std::lock_guard guard(lock_);
  std::fwrite(line.data(), 1, line.size(), file_.get());
}

void history::put(time_point at, std::string_view process, const page_key& key,
                  std::span<const std::byte> bytes) {
  write(fmt::format("put {} {} {} {}\n", told(at), process, shown(key), shown(bytes)));
}

void history::hold(time_point at, std::string_view process, const page_key& key,
                   std::span<const std::byte> bytes) {
  write(fmt::format("hold {} {} {} {}\n", told(at), process, shown(key), shown(bytes)));
}

void history::drop(time_point at, std::string_view process, const page_key& key) {
  write(fmt::format("drop {} {} {}\n", told(at), process, shown(key)));
}

history::call_number history::ask(time_point at, time_point until, std::string_view process,
                                  std::string_view kind) {
  const auto call = ++calls_;
  const auto until_us = std::chrono::duration_cast<std::chrono::microseconds>(until - begin_);
  write(fmt::format("ask {} {} {} {} {}\n", call, told(at), until_us.count(), process, kind));
  return call;
}

void history::hit(call_number call, const page_key& key, std::span<const std::byte> bytes,
                  std::string_view holder) {
  write(fmt::format("hit {} {} {} {}\n", call, shown(key), shown(bytes), holder));
}

void history::returned(call_number call, time_point at) {
  write(fmt::format("return {} {}\n", call, told(at)));
}

void history::view(time_point at, std::string_view process, const discovery::view& adopted) {
  std::string members;
  for (const auto& member : adopted.members)
    members += (members.empty() ? "" : ",") + to_string(member.inc);
  write(fmt::format("view {} {} {} {} {} {}\n", told(at), process, adopted.term, adopted.version,
                    to_string(adopted.issuer), members.empty() ? "-" : members));
}

void history::stall(time_point from, time_point to, std::string_view process) {
  write(fmt::format("stall {} {} {}\n", told(from), told(to), process));
}

void history::gone(time_point at, std::string_view process) {
  write(fmt::format("gone {} {}\n", told(at), process));
}

} // namespace peercache::tests
