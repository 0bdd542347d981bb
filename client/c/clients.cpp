// Functions of the C interface that open and end clients, and those of memory and keys.
#include "client/c/growing_struct.hpp"
#include "client/c/handles.hpp"
#include "client/embedded.hpp"
#include "client/options.hpp"
#include "common/log.hpp"
#include "config/load.hpp"
#include "config/process_sources.hpp"

#include <algorithm>
#include <mutex>
#include <peercache/version.h>
#include <utility>
#include <vector>

namespace peercache::c_api {
namespace {

constexpr std::size_t oldest_settings = 32;

void begin_log_once(const config::loaded_config& loaded) {
  static std::once_flag begun;
  std::call_once(begun, [&] {
    init_log("client", std::get<std::string>(loaded.value_of("log.level").value),
             loaded.config.log.json);
    for (const auto& warning : loaded.warnings)
      log::warn("{}", warning);
  });
}

int check_settings(const peercache_settings& settings, std::uint32_t flags) {
  if ((settings.flags & ~flags) != 0 || settings.reserved != 0)
    return refuse_argument("settings", ": a flag that there is not, or reserved is not 0");
  if (settings.calls_max == 0 || settings.calls_max > PEERCACHE_CALLS_MAX)
    return refuse_argument("settings.calls_max", " is not within 1 and PEERCACHE_CALLS_MAX");
  if (settings.options == nullptr && settings.option_count != 0)
    return refuse_argument("settings.options", " is NULL");
  for (std::size_t i = 0; i < settings.option_count; ++i)
    if (settings.options[i].name == nullptr || settings.options[i].value == nullptr)
      return refuse_argument("settings.options", ": a name or a value is NULL");
  return PEERCACHE_OK;
}

/// Copies the caller's settings to `own` and checks them; `given` NULL: `own` gets the defaults.
/// Returns PEERCACHE_OK, or the code of the fault.
int take_settings(const peercache_settings* given, peercache_settings& own, std::uint32_t flags) {
  own = PEERCACHE_SETTINGS_INIT;
  if (given == nullptr)
    return PEERCACHE_OK;
  if (const int code = take_struct(given, own, oldest_settings, "settings"))
    return code;
  return check_settings(own, flags);
}

using opened = result<std::shared_ptr<client::cache_client>>;

opened connect(const client::client_options& options) {
  auto connected = client::cache_client::connect(options);
  if (!connected)
    return connected.error();
  return std::shared_ptr<client::cache_client>{*std::move(connected)};
}

opened embed(const config::node_config& config) {
  auto started = client::embedded_cache::start(config, client::options_of(config));
  if (!started)
    return started.error();
  std::shared_ptr<client::embedded_cache> whole{*std::move(started)};
  return std::shared_ptr<client::cache_client>{whole, &whole->client()};
}

int open(const peercache_settings* given, peercache_client** wanted, bool embedded) {
  if (wanted == nullptr)
    return refuse_argument("client", " is NULL");
  *wanted = nullptr;
  peercache_settings settings;
  if (const int code = take_settings(given, settings, embedded ? 0u : PEERCACHE_DO_NOT_WAIT))
    return code;
  std::vector<config::given_flag> flags;
  for (std::size_t i = 0; i < settings.option_count; ++i)
    flags.push_back({settings.options[i].name, settings.options[i].value});
  const auto loaded = config::load_in_process(std::move(flags), embedded);
  if (!loaded)
    return fail(loaded.error());
  begin_log_once(*loaded);
  auto options = client::options_of(loaded->config);
  options.wait_for_node = (settings.flags & PEERCACHE_DO_NOT_WAIT) == 0;
  auto made = std::make_unique<peercache_client>();
  made->default_timeout = options.timeout;
  made->calls = std::make_unique<client::started_calls>(settings.calls_max);
  auto cache = embedded ? embed(loaded->config) : connect(options);
  if (!cache)
    return fail(cache.error());
  made->cache = *std::move(cache);
  *wanted = made.release();
  return PEERCACHE_OK;
}

int destroy(peercache_client* client) {
  if (client == nullptr)
    return PEERCACHE_OK;
  if (!client->home.is_here()) // In a forked child nothing is freed: the threads are the parent's.
    return PEERCACHE_OK;
  if (client->calls->is_caller())
    return refuse_argument("client", ": a callback of this client cannot destroy it");
  client->cache->close();
  delete client;
  return PEERCACHE_OK;
}

} // namespace
} // namespace peercache::c_api

using namespace peercache;
using namespace peercache::c_api;

extern "C" {

const char* peercache_version(void) {
  return PEERCACHE_VERSION;
}

const char* peercache_last_error(void) {
  return last_sentence();
}

int peercache_connect(const peercache_settings* settings, peercache_client** client) {
  return guarded([&] { return open(settings, client, false); });
}

int peercache_embed(const peercache_settings* settings, peercache_client** client) {
  return guarded([&] { return open(settings, client, true); });
}

void peercache_close(peercache_client* client) {
  (void)guarded([&]() -> int {
    if (client != nullptr) {
      client->closed = true;
      client->cache->close();
    }
    return PEERCACHE_OK;
  });
}

int peercache_destroy(peercache_client* client) {
  return guarded([&] { return destroy(client); });
}

const char* peercache_data_plane(const peercache_client* client) {
  return client == nullptr ? "" : client->cache->data_plane().c_str();
}

int peercache_register(peercache_client* client, void* memory, size_t bytes) {
  return guarded([&]() -> int {
    if (const int code = check_client(client))
      return code;
    if (memory == nullptr || bytes == 0)
      return refuse_argument("memory", " is NULL, or has no bytes");
    const auto done = client->cache->register_buffer({static_cast<std::byte*>(memory), bytes});
    return done ? PEERCACHE_OK : fail(done.error());
  });
}

int peercache_unregister(peercache_client* client, const void* memory) {
  return guarded([&]() -> int {
    if (const int code = check_client(client))
      return code;
    client->cache->unregister_buffer(static_cast<const std::byte*>(memory));
    return PEERCACHE_OK;
  });
}

int peercache_space_create(const peercache_text* fields, size_t count, peercache_space** space) {
  return guarded([&]() -> int {
    if (space == nullptr || (fields == nullptr && count != 0))
      return refuse_argument("space or fields", " is NULL");
    *space = nullptr;
    std::vector<std::string_view> texts;
    for (size_t i = 0; i < count; ++i) {
      if (fields[i].data == nullptr && fields[i].bytes != 0)
        return refuse_argument("fields", ": a text is NULL");
      texts.emplace_back(fields[i].data, fields[i].bytes);
    }
    *space = new peercache_space{key_space{texts}};
    return PEERCACHE_OK;
  });
}

void peercache_space_free(peercache_space* space) {
  delete space;
}

int peercache_space_key(const peercache_space* space, const void* name, size_t bytes,
                        peercache_key* key) {
  return guarded([&]() -> int {
    if (space == nullptr || key == nullptr || (name == nullptr && bytes != 0))
      return refuse_argument("space, name or key", " is NULL");
    const auto made = space->keys.key_of({static_cast<const char*>(name), bytes});
    std::copy(made.bytes.begin(), made.bytes.end(), key->bytes);
    return PEERCACHE_OK;
  });
}
}
