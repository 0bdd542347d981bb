#include "cli/command.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace peercache::cli {

namespace {

struct get_options {
  key_arguments key;
  std::string file;
};

result<void> write_file(const std::string& path, std::span<const std::byte> bytes) {
  auto* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr)
    return {errc::invalid_argument,
            fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
  bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  written = (path == "-" ? std::fflush(file) : std::fclose(file)) == 0 && written;
  if (!written)
    return {errc::io_failed,
            fmt::format("cannot write all bytes to '{}': {}", path, std::strerror(errno))};
  return {};
}

exit_code say(const global_options& globals, const get_options& options,
              const client::page_result& page) {
  auto origin = to_string(page.origin);
  auto text = page.status == page_status::hit
                  ? fmt::format("{}: {} from {}\n", options.key.keys[0],
                                human_bytes(page.length_bytes), origin)
                  : fmt::format("{}: a miss, because {}; `peercache key explain` says more\n",
                                options.key.keys[0], to_string(page.status));
  // Nothing but the page may be written to stdout, so the message goes to stderr.
  if (options.file == "-")
    fmt::print(stderr, "{}", text);
  else
    print(globals,
          {{"key", options.key.keys[0]},
           {"status", to_string(page.status)},
           {"origin", origin},
           {"length_bytes", page.length_bytes}},
          text);
  return page.status == page_status::hit ? exit_code::ok : exit_code::failed;
}

exit_code get(const global_options& globals, const get_options& options) {
  auto asked = connect_for(globals, options.key);
  if (!asked)
    return fail(globals, asked.error());
  auto& [keys, cache] = *asked;
  auto locations = cache->locate(keys);
  if (!locations)
    return fail(globals, locations.error());
  client::page_result page{.status = page_status::not_found};
  if (locations->empty() || locations->front().empty())
    return say(globals, options, page);
  std::vector<std::byte> bytes(locations->front().front().length_bytes);
  page_part part{bytes.data(), static_cast<std::uint32_t>(bytes.size())};
  client::get_page wanted{keys.front(), {&part, 1}};
  cache->get({&wanted, 1}, {&page, 1});
  if (page.status == page_status::hit) {
    page.length_bytes = part.bytes;
    if (!options.file.empty())
      if (auto written = write_file(options.file, bytes); !written)
        return fail(globals, written.error());
  }
  return say(globals, options, page);
}

} // namespace

void add_get_command(command_line& line) {
  auto* command = line.app.add_subcommand("get", "Fetch one page (1: a miss, with its reason)");
  auto options = std::make_shared<get_options>();
  options->key.keys.resize(1);
  command->add_option("KEY", options->key.keys[0], "Key of the page")->required();
  command->add_option("FILE", options->file,
                      "Where the bytes go; - is stdout; nowhere when left away");
  add_space_options(*command, options->key);
  command->callback([&line, options] {
    line.action = [options](const global_options& globals) { return get(globals, *options); };
  });
}

} // namespace peercache::cli
