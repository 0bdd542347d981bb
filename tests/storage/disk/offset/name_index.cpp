#include "tests/storage/disk/offset/name_index.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace peercache::storage {
namespace {

const std::string folder = "index";
const std::string next_group = "next";

std::string hex_of(std::span<const std::byte> bytes) {
  std::string hex;
  for (const auto byte : bytes) {
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) >> 4];
    hex += "0123456789abcdef"[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

std::string hex_of(const record_header& header) {
  return hex_of(std::as_bytes(std::span(&header, 1)));
}

record_header header_of(const std::string& hex) {
  PEERCACHE_ASSERT(hex.size() == 2 * sizeof(record_header));
  std::array<std::byte, sizeof(record_header)> raw;
  for (std::size_t i = 0; i < raw.size(); ++i)
    raw[i] = static_cast<std::byte>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  record_header header;
  std::memcpy(&header, raw.data(), raw.size());
  return header;
}

std::string next_name(const offset_index_batch& batch) {
  return next_group + std::to_string(batch.next_sequence);
}

std::string path_of(const std::string& name) {
  return folder + '/' + name;
}

} // namespace

result<std::optional<std::uint64_t>> name_index::load(std::uint32_t, const visit& each) {
  names_.clear();
  const auto list = io_.list(folder);
  if (!list && list.error().code == errc::not_found)
    return std::optional<std::uint64_t>{};
  if (!list)
    return list.error();
  std::uint64_t next = 0;
  std::map<std::string, record_header> newest;
  for (const auto& file : *list) {
    if (file.name.starts_with(next_group)) {
      next = std::max<std::uint64_t>(next, std::stoull(file.name.substr(next_group.size())));
      names_[next_group].insert(file.name);
      continue;
    }
    const auto header = header_of(file.name);
    const auto group = to_string(header.key);
    names_[group].insert(file.name);
    auto& known = newest.try_emplace(group, header).first->second;
    if (known.sequence < header.sequence)
      known = header;
  }
  for (const auto& [group, header] : newest)
    each(0, header.key, std::as_bytes(std::span(&header, 1)));
  return next == 0 ? std::optional<std::uint64_t>{} : std::optional(next);
}

result<void> name_index::clear() {
  if (auto made = io_.make_folder(folder); !made)
    return made;
  if (auto synced = io_.sync_folder(""); !synced)
    return synced;
  const auto list = io_.list(folder);
  if (!list)
    return list.error();
  for (const auto& file : *list)
    if (auto removed = io_.remove(path_of(file.name)); !removed)
      return removed;
  names_.clear();
  return io_.sync_folder(folder);
}

result<void> name_index::create(const std::string& group, const std::string& name) {
  auto& names = names_[group];
  if (names.contains(name))
    return {};
  const auto file = io_.create(path_of(name), 0);
  if (!file)
    return file.error();
  io_.close(*file);
  names.insert(name);
  return {};
}

result<void> name_index::remove_but(const std::string& group, const std::string& kept) {
  for (const auto& name : std::set(names_[group])) {
    if (name == kept)
      continue;
    if (auto removed = io_.remove(path_of(name)); !removed)
      return removed;
    names_[group].erase(name);
  }
  if (names_[group].empty())
    names_.erase(group);
  return {};
}

/// Creates the files of a batch and syncs their folder. `take_away` removes old names only
/// afterwards, so that a record has its old name until the new one is durable.
result<void> name_index::add(const offset_index_batch& batch) {
  for (const auto& header : batch.put)
    if (auto made = create(to_string(header.key), hex_of(header)); !made)
      return made;
  if (batch.next_sequence != 0)
    if (auto made = create(next_group, next_name(batch)); !made)
      return made;
  return io_.sync_folder(folder);
}

result<void> name_index::take_away(const offset_index_batch& batch) {
  std::map<std::string, std::string> kept;
  for (const auto& key : batch.removed)
    kept[to_string(key)] = {};
  for (const auto& header : batch.put)
    kept[to_string(header.key)] = hex_of(header);
  if (batch.next_sequence != 0)
    kept[next_group] = next_name(batch);
  for (const auto& [group, name] : kept)
    if (auto removed = remove_but(group, name); !removed)
      return removed;
  return io_.sync_folder(folder);
}

result<void> name_index::commit_now(const offset_index_batch& batch) {
  auto added = add(batch);
  return added ? take_away(batch) : added;
}

void name_index::commit(offset_index_batch batch, std::function<void()> wake) {
  PEERCACHE_ASSERT(!batch_);
  batch_ = std::move(batch);
  wake_ = std::move(wake);
  wake_();
}

std::optional<result<void>> name_index::committed() {
  if (!batch_)
    return std::nullopt;
  if (!added_) {
    added_ = add(*batch_);
    wake_();
    return std::nullopt;
  }
  const auto batch = *std::exchange(batch_, std::nullopt);
  const auto added = *std::exchange(added_, std::nullopt);
  return added ? take_away(batch) : added;
}

} // namespace peercache::storage
