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
  static_cast<node_report&>(said) = std::move(report);
  said.self = std::move(*self);
  return said;
}

} // namespace peercache::link
