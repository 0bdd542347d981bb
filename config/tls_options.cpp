#include "config/tls_options.hpp"

#include "config/option_store.hpp"

namespace peercache::config {

void add_tls(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "tls.cert",
        .type = option_type::text,
        .default_value = "",
        .meaning = "File with the certificate of this node, operator or client, whose URI "
                   "`peercache://CLUSTER/ROLE/NAME` says who it is (`peercache ca issue ROLE "
                   "NAME`); given with `tls.key` and `tls.ca`, it puts all "
                   "ports under TLS 1.3. The files are read again when they have changed, and at "
                   "SIGHUP.",
        .empty_means = "no TLS",
        .store = into([](node_config & c) -> auto& { return c.tls.certificate; })},
       {.name = "tls.key",
        .type = option_type::text,
        .default_value = "",
        .meaning = "File with the key of the certificate, without a passphrase.",
        .empty_means = "no TLS",
        .store = into([](node_config & c) -> auto& { return c.tls.key; })},
       {.name = "tls.ca",
        .type = option_type::text,
        .default_value = "",
        .meaning = "File with the certificate of the CA: whom it has certified for this cluster is "
                   "let in, and nobody else.",
        .empty_means = "no TLS",
        .store = into([](node_config & c) -> auto& { return c.tls.authority; })},
       {.name = "tls.data",
        .type = option_type::choice,
        .default_value = "handshake",
        .choices = words_of<tls_data_mode>,
        .meaning = "What travels to and from the data port inside TLS: with `handshake` all but "
                   "the bytes of pages, which can be read on the way over TCP and RDMA; with "
                   "`full` those, too, over TCP alone. Nodes and clients with different words do "
                   "`full`.",
        .store = into([](node_config & c) -> auto& { return c.tls_data; })}});
}

} // namespace peercache::config
