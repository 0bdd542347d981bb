#include "rdma/verbs/rail_choice.hpp"

#include "rdma/verbs/device.hpp"
#include "rdma/verbs/queue_pair.hpp"

#include <algorithm>

namespace peercache::rdma {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const auto& word : words)
    out += (out.empty() ? "" : between) + word;
  return out;
}

bool takes_all(const rail_settings& settings) {
  return settings.devices.empty() ||
         (settings.devices.size() == 1 && settings.devices.front() == "auto");
}

std::vector<std::string> wanted_names(const rail_settings& settings,
                                      const verbs::device_listing& there) {
  if (!takes_all(settings))
    return settings.devices;
  std::vector<std::string> names;
  for (const auto& port : there.ports)
    if (std::find(names.begin(), names.end(), port.device) == names.end())
      names.push_back(port.device);
  return names;
}

/// The device's first usable port; null when there is none, and `refusals` gets the reason.
const verbs::port_report* usable_port(const verbs::device_listing& there, const std::string& device,
                                      std::vector<std::string>& refusals) {
  std::string why = device + ": there is no such device";
  for (const auto& port : there.ports) {
    if (port.device != device)
      continue;
    if (port.usable)
      return &port;
    why = device + ": " + port.why_not;
  }
  refusals.push_back(why);
  return nullptr;
}

} // namespace

result<rail_choice> choose_rails(const rail_settings& settings) {
  if (settings.mode == plane_mode::tcp || settings.pages_in_tls)
    return choose_rails(settings, {});
  return choose_rails(settings, verbs::list_ports({settings.port, settings.gid_index}));
}

result<rail_choice> choose_rails(const rail_settings& settings,
                                 const verbs::device_listing& there) {
  rail_choice made;
  if (settings.mode == plane_mode::tcp) {
    made.why = "tcp: data_plane = tcp";
    return made;
  }
  if (settings.pages_in_tls) {
    if (settings.mode == plane_mode::verbs)
      return {errc::invalid_argument,
              "data_plane = verbs, but pages that travel by READs are not inside TLS; set "
              "`tls.data = handshake`, or `data_plane = auto` to take TCP"};
    made.why = "tcp: pages are inside TLS (tls.data = full)";
    return made;
  }
  if (auto allowed = verbs::check(settings.path); !allowed)
    return allowed.error();
  std::vector<std::string> names;
  std::vector<std::string> refusals;
  for (const auto& name : wanted_names(settings, there)) {
    const auto* port = usable_port(there, name, refusals);
    if (port == nullptr)
      continue;
    made.rails.push_back({port->device, port->port});
    names.push_back(port->device + '/' + std::to_string(port->port));
  }
  if (there.ports.empty() && !there.why_none.empty())
    refusals = {there.why_none};
  const auto refused = joined(refusals, "; ");
  const bool strict = settings.mode == plane_mode::verbs;
  if (strict && (made.rails.empty() || (!takes_all(settings) && !refusals.empty())))
    return {errc::not_found,
            "data_plane = verbs, but a device cannot be used: " +
                (refused.empty() ? "there is none" : refused) +
                "; see `peercache doctor`, or set data_plane = auto to fall back to "
                "TCP"};
  if (made.rails.empty())
    made.why = "tcp: " + (refused.empty() ? "no RDMA device" : refused);
  else
    made.why = "verbs: " + joined(names, ", ") + (refused.empty() ? "" : "; not " + refused);
  return made;
}

} // namespace peercache::rdma
