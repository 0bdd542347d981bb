#include "cli/command.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <memory>

namespace peercache::cli {

namespace {

struct put_options {
  key_arguments key;
  std::string file = "-";
  std::string value;
  bool has_value = false;
};

/// The error for a file that cannot be read. @pre errno is that of the failed system call
error unreadable(const std::string& path) {
  return {errc::invalid_argument, fmt::format("cannot read '{}': {}", path, std::strerror(errno))};
}

/// Reads the whole of `path` ("-": stdin). Errors: invalid_argument for a file that cannot be read,
/// and for content that is longer than the longest page.
result<std::vector<std::byte>> read_page(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(
      path == "-" ? nullptr : std::fopen(path.c_str(), "rb"),
      [](std::FILE* file) { return file != nullptr ? std::fclose(file) : 0; });
  if (path != "-" && !opened)
    return unreadable(path);
  auto* file = path == "-" ? stdin : opened.get();
  std::vector<std::byte> bytes;
  std::byte chunk[64 * 1024];
  while (auto got = std::fread(chunk, 1, sizeof chunk, file)) {
    bytes.insert(bytes.end(), chunk, chunk + got);
    if (bytes.size() > limits::page_bytes_max)
      return {errc::invalid_argument, fmt::format("'{}' is too long for a page: the limit is {}",
                                                  path, human_bytes(limits::page_bytes_max))};
  }
  if (std::ferror(file) != 0)
    return unreadable(path);
  return bytes;
}

exit_code put(const global_options& globals, const put_options& options) {
  auto keys = options.key.parse();
  if (!keys)
    return fail(globals, keys.error());
  const auto* value = reinterpret_cast<const std::byte*>(options.value.data());
  auto bytes = options.has_value ? result<std::vector<std::byte>>(
                                       std::vector<std::byte>(value, value + options.value.size()))
                                 : read_page(options.file);
  if (!bytes)
    return fail(globals, bytes.error());
  if (bytes->empty())
    return fail(globals,
                {errc::invalid_argument,
                 fmt::format("a page has at least one byte, and {} has none; give --value TEXT or "
                             "another FILE",
                             options.has_value ? "--value" : "'" + options.file + "'")});
  auto connected = connect_client(globals);
  if (!connected)
    return fail(globals, connected.error());
  client::const_part part{bytes->data(), static_cast<std::uint32_t>(bytes->size())};
  client::set_page page{keys->front(), {&part, 1}};
  client::page_result stored;
  (*connected)->set({&page, 1}, {&stored, 1});
  auto flushed = (*connected)->flush();
  if (!flushed)
    return fail(globals, flushed.error());
  // Only the node and the directory know whether the cluster already had the page; `flush` reports
  // it.
  if (stored.status == page_status::stored && flushed->duplicates > 0)
    stored.status = page_status::duplicate;
  bool ok = is_success(stored.status) && flushed->failed == 0;
  auto word =
      ok || !is_success(stored.status) ? std::string(to_string(stored.status)) : "not published";
  print(globals,
        {{"key", options.key.keys[0]},
         {"digest", to_string(keys->front())},
         {"status", word},
         {"length_bytes", bytes->size()}},
        fmt::format("{}: {} ({}){}\n", options.key.keys[0], word, human_bytes(bytes->size()),
                    stored.status == page_status::duplicate
                        ? ": the cluster has this key already, nothing was stored"
                        : ""));
  return ok ? exit_code::ok : exit_code::failed;
}

} // namespace

void add_put_command(command_line& line) {
  auto* command =
      line.app.add_subcommand("put", "Store one page from a file, stdin or the command line");
  auto options = std::make_shared<put_options>();
  options->key.keys.resize(1);
  command->add_option("KEY", options->key.keys[0], "Key of the page")->required();
  auto* file = command->add_option("FILE", options->file,
                                   "Where the bytes are, at most 64MiB [default: -, stdin]");
  auto* value =
      command->add_option("--value", options->value, "The bytes themselves")->excludes(file);
  add_space_options(*command, options->key);
  command->callback([&line, options, value] {
    options->has_value = value->count() > 0;
    line.action = [options](const global_options& globals) { return put(globals, *options); };
  });
}

} // namespace peercache::cli
