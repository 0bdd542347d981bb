#include "link/node_status.hpp"

#include "discovery/view_codec.hpp"

#include <algorithm>
#include <utility>

namespace peercache::link {

bool node_status::lacks(std::string_view part) const {
  return std::find(silent.begin(), silent.end(), part) != silent.end();
}

result<node_status> status_of(node_report report) {
  auto self = discovery::decode_member(report.member);
  if (!self)
    return self.error();
  node_status said;
  said.self = std::move(*self);
  said.unready_reason = std::move(report.unready_reason);
  said.data_plane = std::move(report.data_plane);
  said.version = std::move(report.version);
  said.samples = std::move(report.samples);
  said.directory = std::move(report.directory);
  said.disk = std::move(report.disk);
  said.membership = std::move(report.membership);
  said.links = std::move(report.links);
  said.lookup_port = report.lookup_port;
  said.unix_ms = report.unix_ms;
  said.common_options = std::move(report.common_options);
  said.silent = std::move(report.silent);
  return said;
}

} // namespace peercache::link
