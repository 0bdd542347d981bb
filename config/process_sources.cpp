#include "config/process_sources.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unistd.h>
#include <utility>

namespace peercache::config {
namespace {

std::map<std::string, std::string> environment_of_process() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text{*entry};
    const auto equals = text.find('=');
    if (equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string host_name_of_machine() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

error unreadable(const std::string& path) {
  return {errc::io_failed, "cannot read the configuration file " + path + ": " +
                               std::strerror(errno) + "; check the path and its permissions"};
}

} // namespace

result<file_source> read_config_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file)
    return unreadable(path);
  // The buffer has room for one byte more than allowed, so that `merge_sources` sees when a file is
  // too long.
  std::string content(config_file_bytes_max + 1, '\0');
  errno = 0;
  content.resize(std::fread(content.data(), 1, content.size(), file.get()));
  if (std::ferror(file.get()) != 0)
    return unreadable(path);
  return file_source{path, std::move(content)};
}

result<sources> sources_of_process(const std::optional<std::string>& path) {
  sources from;
  from.environment = environment_of_process();
  from.host_name = host_name_of_machine();
  auto chosen = path;
  if (const auto named = from.environment.find("PEERCACHE_CONFIG");
      !chosen && named != from.environment.end() && !named->second.empty())
    chosen = named->second;
  if (!chosen)
    return from;
  auto file = read_config_file(*chosen);
  if (!file)
    return file.error();
  from.file = *std::move(file);
  return from;
}

result<loaded_config> load_in_process(std::vector<given_flag> flags, bool whole_node) {
  auto sources = sources_of_process(std::nullopt);
  if (!sources)
    return sources.error();
  for (const auto& [name, text] : flags)
    if (find_option(name) == nullptr)
      return {errc::invalid_argument, "there is no option `" + name + '`' + name_hint(name)};
  sources->flags = std::move(flags);
  return whole_node ? load(*sources) : merge_sources(*sources);
}

} // namespace peercache::config
