#include "rdma/verbs/gid.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace peercache::rdma::verbs {

namespace {

/// Rank of an entry by how far its address reaches; 0: the entry is not used.
int reach_of(const gid_entry& entry) noexcept {
  if (entry.type != gid_entry::kind::roce_v2)
    return 0;
  if (is_ipv4_mapped(entry.gid))
    return 3;
  const bool link_local = entry.gid[0] == 0xfe && (entry.gid[1] & 0xc0U) == 0x80;
  return link_local ? 1 : 2;
}

gid_entry::kind kind_of(std::uint32_t type) noexcept {
  switch (type) {
  case IBV_GID_TYPE_ROCE_V1:
    return gid_entry::kind::roce_v1;
  case IBV_GID_TYPE_ROCE_V2:
    return gid_entry::kind::roce_v2;
  default:
    return gid_entry::kind::infiniband;
  }
}

gid_bytes bytes_of(const ibv_gid& gid) noexcept {
  gid_bytes bytes;
  std::memcpy(bytes.data(), gid.raw, bytes.size());
  return bytes;
}

/// The kind of an entry as sysfs names it, for providers whose library does not say it.
gid_entry::kind kind_from_sysfs(const ibv_context& context, std::uint8_t port, std::int32_t index,
                                link_layer layer) {
  if (layer == link_layer::infiniband)
    return gid_entry::kind::infiniband;
  std::ifstream file(std::string(context.device->ibdev_path) + "/ports/" + std::to_string(port) +
                     "/gid_attrs/types/" + std::to_string(index));
  std::string type;
  std::getline(file, type);
  return type == "RoCE v2" ? gid_entry::kind::roce_v2 : gid_entry::kind::roce_v1;
}

} // namespace

bool is_ipv4_mapped(const gid_bytes& gid) noexcept {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

std::string to_string(const gid_bytes& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  return text;
}

std::int32_t choose_gid(link_layer layer, const std::vector<gid_entry>& table) noexcept {
  if (layer == link_layer::infiniband) {
    const bool has_first = std::any_of(table.begin(), table.end(),
                                       [](const gid_entry& entry) { return entry.index == 0; });
    return has_first ? 0 : -1;
  }
  std::int32_t chosen = -1;
  int reach = 0;
  for (const gid_entry& entry : table)
    if (reach_of(entry) > reach) {
      reach = reach_of(entry);
      chosen = entry.index;
    }
  return chosen;
}

std::vector<gid_entry> read_gid_table(ibv_context& context, std::uint8_t port, int entries,
                                      link_layer layer) {
  std::vector<gid_entry> table;
  for (int index = 0; index < entries; ++index) {
    gid_entry entry;
    entry.index = index;
    ibv_gid_entry full{};
    const int error = ibv_query_gid_ex(&context, port, static_cast<std::uint32_t>(index), &full, 0);
    if (error == 0) {
      entry.gid = bytes_of(full.gid);
      entry.type = kind_of(full.gid_type);
    } else if (error == ENODATA) {
      continue; // ENODATA means an empty entry, which is left out.
    } else {
      ibv_gid gid{};
      if (ibv_query_gid(&context, port, index, &gid) != 0)
        continue;
      entry.gid = bytes_of(gid);
      entry.type = kind_from_sysfs(context, port, index, layer);
    }
    if (entry.gid != gid_bytes{})
      table.push_back(entry);
  }
  return table;
}

} // namespace peercache::rdma::verbs
