#include "tests/fakes/memory_disk_names.hpp"

#include "common/assert.hpp"
#include "storage/disk/io/disk_name.hpp"

#include <cerrno>
#include <utility>

namespace peercache::storage {

memory_disk_names::file_ptr memory_disk_names::find(const std::string& name) const {
  const auto found = seen_.find(name);
  return found == seen_.end() ? nullptr : found->second.file;
}

bool memory_disk_names::is_folder(const std::string& name) const {
  const auto found = seen_.find(name);
  return name.empty() || (found != seen_.end() && !found->second.file);
}

void memory_disk_names::apply(tree& to, const std::vector<entry_change>& entries) {
  for (const auto& one : entries)
    if (one.now)
      to.insert_or_assign(one.name, *one.now);
    else
      to.erase(one.name);
}

void memory_disk_names::happen(std::vector<entry_change> entries) {
  apply(seen_, entries);
  changes_.push_back({std::move(entries), next_change_++});
}

void memory_disk_names::count(const memory_disk_file& file, std::uint64_t before_bytes) {
  if (file.named)
    used_bytes_ += in_blocks(file.bytes()) - in_blocks(before_bytes);
}

void memory_disk_names::unname(memory_disk_file& file) {
  used_bytes_ -= in_blocks(file.bytes());
  file.named = false;
}

int memory_disk_names::why_no_place(const std::string& name) const {
  const std::string parent(folder_of(name));
  if (!is_folder(parent))
    return find(parent) ? ENOTDIR : ENOENT;
  return 0;
}

int memory_disk_names::add_file(const std::string& name, file_ptr file) {
  if (const int why = why_no_place(name); why != 0)
    return why;
  if (seen_.contains(name))
    return EEXIST;
  file->named = true;
  count(*file, 0);
  happen({{name, node{std::move(file)}}});
  return 0;
}

int memory_disk_names::add_folder(const std::string& name) {
  if (const int why = why_no_place(name); why != 0)
    return why;
  if (is_folder(name))
    return 0;
  if (find(name))
    return ENOTDIR;
  happen({{name, node{}}});
  return 0;
}

int memory_disk_names::rename(const std::string& from, const std::string& to) {
  if (const int why = why_no_place(to); why != 0)
    return why;
  const auto file = find(from);
  if (!file)
    return is_folder(from) ? EISDIR : ENOENT;
  if (is_folder(to))
    return EISDIR;
  if (from == to)
    return 0;
  if (const auto replaced = find(to))
    unname(*replaced);
  happen({{from, std::nullopt}, {to, node{file}}});
  return 0;
}

int memory_disk_names::remove(const std::string& name) {
  const auto file = find(name);
  if (!file)
    return is_folder(name) ? EISDIR : ENOENT;
  unname(*file);
  happen({{name, std::nullopt}});
  return 0;
}

int memory_disk_names::sync_folder(const std::string& folder, std::uint64_t before) {
  if (!is_folder(folder))
    return ENOENT;
  for (auto& what : changes_) {
    if (what.number >= before)
      break;
    std::erase_if(what.entries, [&](const entry_change& one) {
      const bool here = folder_of(one.name) == folder;
      if (here)
        apply(durable_, {one});
      return here;
    });
  }
  std::erase_if(changes_, [](const change& what) { return what.entries.empty(); });
  return 0;
}

std::vector<std::string> memory_disk_names::files() const {
  std::vector<std::string> names;
  for (const auto& [name, what] : seen_)
    if (what.file)
      names.push_back(name);
  return names;
}

std::optional<std::vector<disk_folder_entry>>
memory_disk_names::list(const std::string& folder) const {
  if (!is_folder(folder))
    return std::nullopt;
  std::vector<disk_folder_entry> entries;
  const auto prefix = folder.empty() ? folder : folder + '/';
  for (auto at = seen_.lower_bound(prefix); at != seen_.end(); ++at) {
    if (!at->first.starts_with(prefix))
      break;
    if (folder_of(at->first) != folder)
      continue;
    const auto& file = at->second.file;
    entries.push_back({std::string(last_part_of(at->first)), file ? file->bytes() : 0, !file});
  }
  return entries;
}

void memory_disk_names::swap(const std::string& a, const std::string& b) {
  const auto one = find(a);
  const auto other = find(b);
  PEERCACHE_ASSERT(one && other);
  for (auto* names : {&seen_, &durable_}) {
    (*names)[a].file = other;
    (*names)[b].file = one;
  }
}

memory_disk_names memory_disk_names::after_power_cut(std::mt19937_64& random,
                                                     survivors what) const {
  tree left = durable_;
  for (const auto& one : changes_)
    if (what == survivors::some ? random() % 2 == 0 : what == survivors::all)
      apply(left, one.entries);
  memory_disk_names after;
  std::map<const memory_disk_file*, file_ptr> files;
  // Names are sorted, so each folder is in `after` before the entries of the folder come.
  for (const auto& [name, node_left] : left) {
    const std::string parent(folder_of(name));
    const auto folder = after.seen_.find(parent);
    if (!parent.empty() && (folder == after.seen_.end() || folder->second.file))
      continue;
    if (!node_left.file) {
      after.seen_.emplace(name, node{});
      continue;
    }
    auto& file = files[node_left.file.get()];
    if (!file)
      file = std::make_shared<memory_disk_file>(node_left.file->after_power_cut(random, what));
    if (after.seen_.emplace(name, node{file}); !file->named) {
      file->named = true;
      after.count(*file, 0);
    }
  }
  after.durable_ = after.seen_;
  return after;
}

} // namespace peercache::storage
