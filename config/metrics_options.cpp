#include "config/metrics_options.hpp"

#include "config/option_store.hpp"

namespace peercache::config {

void add_metrics(std::vector<option>& table) {
  table.insert(
      table.end(),
      {{.name = "metrics.enabled",
        .type = option_type::boolean,
        .default_value = true,
        .meaning = "Serves metrics and health checks over HTTP.",
        .store = into([](node_config & c) -> auto& { return c.metrics.enabled; })},
       {.name = "metrics.bind",
        .type = option_type::text,
        .default_value = "",
        .meaning = "Address that the HTTP port listens on; anything but loopback needs "
                   "`tls.*` or `insecure_cluster`.",
        .empty_means = "the value of `net.bind`",
        .store = into([](node_config & c) -> auto& { return c.metrics.bind; })},
       {.name = "metrics.dashboard",
        .type = option_type::boolean,
        .default_value = true,
        .meaning = "Serves a page of the whole cluster at `/`, and `/api/` (HTTP port).",
        .store = into([](node_config & c) -> auto& { return c.metrics.dashboard; })},
       {.name = "metrics.readers",
        .type = option_type::choice,
        .default_value = "members",
        .choices = words_of<http_readers>,
        .meaning = "With `tls.*`, who reads metrics, status and the page: `members` show a "
                   "certificate of the cluster (`peercache ca issue client prometheus`), "
                   "`anyone` none. Health checks never need one.",
        .store = into([](node_config & c) -> auto& { return c.metrics.readers; })}});
}

} // namespace peercache::config
