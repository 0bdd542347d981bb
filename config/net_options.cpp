#include "config/net_options.hpp"

#include "config/option_store.hpp"

namespace peercache::config {

void add_net(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "net.bind",
        .type = option_type::text,
        .default_value = "127.0.0.1",
        .meaning = "Address that the control, look-up and data ports listen on; anything but "
                   "loopback needs `tls.*` or `insecure_cluster`.",
        .store = into([](node_config & c) -> auto& { return c.net.bind; })},
       {.name = "net.advertise",
        .type = option_type::text,
        .default_value = "",
        .meaning = "Address that other nodes and clients connect to.",
        .empty_means = "the value of `net.bind`",
        .store = into([](node_config & c) -> auto& { return c.net.advertise; })},
       {.name = "net.control_port",
        .type = option_type::integer,
        .default_value = 31998ul,
        .min = 0ul,
        .max = 65535ul,
        .meaning = "Port of the actors and of discovery; 0 takes any free port.",
        .store = into([](node_config & c) -> auto& { return c.net.control_port; })},
       {.name = "net.lookup_port",
        .type = option_type::integer,
        .default_value = 0ul,
        .min = 0ul,
        .max = 65535ul,
        .meaning = "Port where clients ask the directory; others learn it by themselves, 0 takes "
                   "any free port.",
        .store = into([](node_config & c) -> auto& { return c.net.lookup_port; })},
       {.name = "net.lookup_datagrams",
        .type = option_type::boolean,
        .default_value = false,
        .meaning = "Whether look-ups that ask 16 nodes or more at once may travel by UDP, "
                   "encrypted, at the number of the look-up port; TCP takes what UDP loses.",
        .store = into([](node_config & c) -> auto& { return c.net.lookup_datagrams; })},
       {.name = "net.data_port",
        .type = option_type::integer,
        .default_value = 31999ul,
        .min = 0ul,
        .max = 65535ul,
        .meaning = "Port of TCP reads and of the queue-pair handshake; 0 takes any free port.",
        .store = into([](node_config & c) -> auto& { return c.net.data_port; })},
       {.name = "net.http_port",
        .type = option_type::integer,
        .default_value = 31997ul,
        .min = 0ul,
        .max = 65535ul,
        .meaning = "Port of metrics and health checks; 0 takes any free port.",
        .store = into([](node_config & c) -> auto& { return c.net.http_port; })},
       {.name = "net.socket_folder",
        .type = option_type::text,
        .default_value = "",
        .meaning = "Folder of the Unix socket at which clients of this host reach the node; where "
                   "it is set, they need `PEERCACHE_NET_SOCKET_FOLDER` in their environment.",
        .empty_means = "/run/peercache, or `peercache` in $XDG_RUNTIME_DIR, or /tmp/peercache-UID",
        .store = into([](node_config & c) -> auto& { return c.net.socket_folder; })}});
}

} // namespace peercache::config
