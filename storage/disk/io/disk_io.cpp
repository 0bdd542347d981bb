#include "storage/disk/io/disk_io.hpp"

namespace peercache::storage {

bool in_whole_blocks(const disk_request& request) noexcept {
  const auto at_border = [](const std::byte* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % disk_block_bytes == 0;
  };
  if (is_sync(request.what))
    return true;
  return request.offset_bytes % disk_block_bytes == 0 && request.bytes != 0 &&
         request.bytes % disk_block_bytes == 0 && at_border(request.memory) &&
         at_border(request.head) &&
         (request.head == nullptr || request.what == disk_request::kind::write);
}

result<void> disk_io::read_heads(const std::string& folder, std::size_t head_bytes,
                                 const std::function<void(const disk_file_head&)>& visit) const {
  auto entries = list(folder);
  if (!entries)
    return entries.error();
  std::vector<std::byte> head(head_bytes);
  double visited = 0;
  for (auto& entry : *entries) {
    ++visited;
    if (entry.folder)
      continue;
    const auto path = folder.empty() ? entry.name : folder + '/' + entry.name;
    const auto got = read_now(path, 0, head);
    visit({std::move(entry.name), entry.bytes, std::span(head).first(got ? *got : 0),
           visited / static_cast<double>(entries->size())});
  }
  return {};
}

} // namespace peercache::storage
