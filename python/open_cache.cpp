#include "python/open_cache.hpp"

#include "client/options.hpp"
#include "common/log.hpp"
#include "config/process_sources.hpp"
#include "python/living.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace peercache::python {
namespace {

void begin_log(const config::loaded_config& loaded) {
  static std::once_flag begun;
  std::call_once(begun, [&] {
    init_log("python", std::get<std::string>(loaded.value_of("log.level").value),
             loaded.config.log.json);
    for (const auto& warning : loaded.warnings)
      log::warn("{}", warning);
  });
}

result<opened_cache> embed(const config::loaded_config& loaded) {
  auto started = client::embedded_cache::start(loaded.config, client::options_of(loaded.config));
  if (!started)
    return started.error();
  std::shared_ptr<client::embedded_cache> whole{*std::move(started)};
  opened_cache opened;
  opened.client = counted(std::shared_ptr<client::cache_client>{whole, &whole->client()});
  opened.options = client::options_of(loaded.config);
  const auto& self = whole->node().self();
  opened.node_address = self.host + ':' + std::to_string(self.control_port);
  return opened;
}

} // namespace

result<config::loaded_config> load_options(const std::map<std::string, std::string>& options,
                                           bool embedded) {
  std::vector<config::given_flag> flags;
  flags.reserve(options.size());
  for (const auto& [name, text] : options)
    flags.push_back({name, text});
  auto loaded = config::load_in_process(std::move(flags), embedded);
  if (loaded)
    begin_log(*loaded);
  return loaded;
}

result<opened_cache> open_cache(const open_request& request) {
  auto loaded = load_options(request.options, request.embedded);
  if (!loaded)
    return loaded.error();
  if (request.embedded)
    return embed(*loaded);
  opened_cache opened;
  opened.options = client::options_of(loaded->config);
  opened.options.wait_for_node = request.wait_for_node;
  opened.node_address = opened.options.node_host + ':' + std::to_string(opened.options.node_port);
  auto connected = client::cache_client::connect(opened.options);
  if (!connected)
    return connected.error();
  opened.client = counted(std::shared_ptr<client::cache_client>{*std::move(connected)});
  return opened;
}

} // namespace peercache::python
