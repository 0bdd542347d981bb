#include "storage/disk/disk_io.hpp"

namespace peercache::storage {

result<void> disk_io::read_heads(const std::string& folder, std::size_t head_bytes,
                                 const std::function<void(const disk_file_head&)>& visit) const {
  auto entries = list(folder);
  if (!entries)
    return entries.error();
  std::vector<std::byte> head(head_bytes);
  for (auto& entry : *entries) {
    if (entry.folder)
      continue;
    const auto path = folder.empty() ? entry.name : folder + '/' + entry.name;
    const auto got = read_now(path, 0, head);
    visit({std::move(entry.name), entry.bytes, std::span(head).first(got ? *got : 0)});
  }
  return {};
}

} // namespace peercache::storage
