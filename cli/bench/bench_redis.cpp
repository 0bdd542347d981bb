#include "cli/bench/bench_redis.hpp"

#include "net/socket.hpp"

#include <chrono>
#include <fmt/format.h>
#include <initializer_list>

namespace peercache::cli {

using namespace std::chrono_literals;

namespace {

constexpr auto redis_patience = 10s;

/// Appends a command of redis' protocol (RESP): an array of strings.
void append_command(std::string& out, std::initializer_list<std::string_view> words) {
  out += fmt::format("*{}\r\n", words.size());
  for (const auto word : words) {
    out += fmt::format("${}\r\n", word.size());
    out.append(word);
    out += "\r\n";
  }
}

std::string_view text_of(const page_key& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

result<bench::raw_client> connect_to_redis(child_process& server, std::uint16_t port) {
  const auto until = std::chrono::steady_clock::now() + redis_patience;
  auto connection = bench::raw_client::connect(port);
  while (!connection && std::chrono::steady_clock::now() < until) {
    if (server.wait(10ms))
      return {errc::closed, "redis-server has ended at its start"};
    auto next = bench::raw_client::connect(port);
    if (next)
      return next;
  }
  return connection;
}

} // namespace

result<std::optional<redis_server>> redis_server::start() {
  const auto program = find_program("redis-server", "redis-server");
  if (!program)
    return std::optional<redis_server>();
  std::uint16_t port = 0;
  {
    const auto held = net::hold_port("127.0.0.1", 0);
    if (!held)
      return held.error();
    port = net::local_port(*held);
  }
  spawn_options options;
  options.arguments = {
      *program, "--port", std::to_string(port), "--bind", "127.0.0.1", "--save",   "",
      "--dir",  "/tmp",   "--appendonly",       "no",     "--logfile", "/dev/null"};
  auto server = child_process::spawn(options);
  if (!server)
    return server.error();
  auto connection = connect_to_redis(*server, port);
  if (!connection)
    return connection.error();
  return std::optional(redis_server(std::move(*server), std::move(*connection)));
}

/// Sends the commands, and expects this answer to each of them.
result<void> redis_server::exchange(std::size_t answers, std::string_view answer) {
  answers_.assign(answers * answer.size(), '\0');
  if (auto done = connection_.exchange_bytes(commands_, answers_); !done)
    return done;
  for (std::size_t i = 0; i < answers; ++i)
    if (std::string_view(answers_).substr(i * answer.size(), answer.size()) != answer)
      return {errc::incompatible, "redis-server gave another answer than the expected one"};
  return {};
}

result<void> redis_server::store(std::span<const page_key> keys, std::size_t value_bytes) {
  const std::string value(value_bytes, 'v');
  for (const auto& key : keys) {
    commands_.clear();
    append_command(commands_, {"SET", text_of(key), value});
    if (auto done = exchange(1, "+OK\r\n"); !done)
      return done;
  }
  return {};
}

result<void> redis_server::exists(std::span<const page_key> keys) {
  commands_.clear();
  for (const auto& key : keys)
    append_command(commands_, {"EXISTS", text_of(key)});
  return exchange(keys.size(), ":1\r\n");
}

} // namespace peercache::cli
