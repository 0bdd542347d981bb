#include "metrics/http_server.hpp"

#include "common/assert.hpp"
#include "metrics/bounded_task_queue.hpp"
#include "metrics/status_page.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

namespace peercache::metrics {

namespace {

constexpr const char* text_type = "text/plain; charset=utf-8";
constexpr const char* exposition_type = "text/plain; version=0.0.4; charset=utf-8";

/// cpp-httplib's server with a stop() that also works before and at the very start of the accept
/// loop, where the library's own one is lost.
class stoppable_server final : public httplib::Server {
public:
  ~stoppable_server() override {
    halt();
    if (halted_fd_ != INVALID_SOCKET)
      ::close(halted_fd_);
  }

  /// Ends the accept loop. The descriptor stays open until the end, so that a loop which is about
  /// to accept on it can never meet another file of the same number.
  void halt() noexcept {
    const socket_t listening = svr_sock_.exchange(INVALID_SOCKET);
    if (listening == INVALID_SOCKET)
      return;
    halted_fd_ = listening;
    ::shutdown(listening, SHUT_RDWR);
  }

  /// The library listens with a backlog of 5, which a few dashboards at once overflow.
  void widen_backlog() noexcept { ::listen(svr_sock_, http_server::backlog_connections_max); }

private:
  std::atomic<socket_t> halted_fd_{INVALID_SOCKET};
};

/// Not the library's default, which sets SO_REUSEPORT: with it two nodes would share one port and
/// each would get half of the scrapes.
void set_socket_options(socket_t fd) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

httplib::Server::HandlerResponse refuse_writes(const httplib::Request& request,
                                               httplib::Response& response) {
  if (request.method == "GET" || request.method == "HEAD")
    return httplib::Server::HandlerResponse::Unhandled;
  response.status = 405;
  response.set_header("Allow", "GET, HEAD");
  response.set_content("only GET and HEAD\n", text_type);
  return httplib::Server::HandlerResponse::Handled;
}

void serve_text(httplib::Server& server, const char* path, const char* type,
                std::function<std::string()> provider) {
  server.Get(path, [type, provider = std::move(provider)](const auto&, auto& response) {
    response.set_content(provider(), type);
  });
}

void serve_constant(httplib::Server& server, const char* path, const char* type,
                    std::string_view text) {
  server.Get(path, [type, text](const auto&, auto& response) {
    response.set_content(text.data(), text.size(), type);
  });
}

void add_routes(httplib::Server& server, http_content content) {
  serve_text(server, "/metrics", exposition_type, std::move(content.metrics_text));
  serve_text(server, "/status\\.json", "application/json", std::move(content.status_json));
  serve_constant(server, "/healthz", text_type, "ok\n");
  serve_constant(server, "/", "text/html; charset=utf-8", status_page_html());
  serve_constant(server, "/status\\.css", "text/css; charset=utf-8", status_page_css());
  serve_constant(server, "/status\\.js", "text/javascript; charset=utf-8", status_page_script());
  server.Get("/readyz", [ask = std::move(content.node_readiness)](const auto&, auto& response) {
    const readiness now = ask();
    response.status = now.ready ? 200 : 503;
    response.set_content(now.ready ? "ready\n" : "not ready: " + now.reason + "\n", text_type);
  });
}

void limit(httplib::Server& server, const http_options& options) {
  server.set_read_timeout(options.read_timeout);
  server.set_write_timeout(options.write_timeout);
  server.set_payload_max_length(http_server::payload_bytes_max);
  server.set_keep_alive_max_count(1);
  server.set_socket_options(set_socket_options);
  server.set_tcp_nodelay(true);
  server.new_task_queue = [] {
    return new bounded_task_queue{http_server::worker_threads,
                                  http_server::waiting_connections_max};
  };
}

} // namespace

struct http_server::state {
  stoppable_server server;
  std::uint16_t port = 0;
};

http_server::http_server(std::unique_ptr<state> s) : state_(std::move(s)) {}
http_server::~http_server() = default;

result<std::unique_ptr<http_server>> http_server::listen(const http_options& options,
                                                         http_content content) {
  PEERCACHE_ASSERT(content.metrics_text && content.node_readiness && content.status_json);
  auto made = std::make_unique<state>();
  limit(made->server, options);
  made->server.set_pre_routing_handler(refuse_writes);
  made->server.set_default_headers({{"Content-Security-Policy", "default-src 'self'"},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Cache-Control", "no-store"}});
  add_routes(made->server, std::move(content));
  errno = 0;
  const int port = options.port == 0 ? made->server.bind_to_any_port(options.host)
                   : made->server.bind_to_port(options.host, options.port) ? options.port
                                                                           : -1;
  if (port <= 0)
    return {errc::io_failed, "HTTP cannot listen on " + options.host + ":" +
                                 std::to_string(options.port) + ": " +
                                 (errno == 0 ? "no such address" : std::strerror(errno))};
  made->server.widen_backlog();
  made->port = static_cast<std::uint16_t>(port);
  return std::unique_ptr<http_server>{new http_server{std::move(made)}};
}

std::uint16_t http_server::port() const noexcept {
  return state_->port;
}

void http_server::run() {
  state_->server.listen_after_bind();
}

void http_server::stop() noexcept {
  state_->server.halt();
}

} // namespace peercache::metrics
