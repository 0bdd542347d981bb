#include "metrics/http_server.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"
#include "common/log_limit.hpp"
#include "metrics/dashboard_assets.hpp"
#include "metrics/http_connection.hpp"
#include "net/peer_address.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <httplib.h>
#include <list>
#include <memory>
#include <optional>
#include <poll.h>
#include <regex>
#include <sys/eventfd.h>
#include <utility>
#include <vector>

namespace peercache::metrics {

namespace {

using clock = std::chrono::steady_clock;
using time_point = clock::time_point;

constexpr std::chrono::milliseconds no_descriptor_pause{100};
/// How many connections one turn of the server accepts: so few that no connection is given up
/// before a turn has looked at it.
constexpr std::size_t accepted_per_turn = 64;
/// The page runs and shows files of this server alone, none of them within the page's own text.
constexpr const char* content_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr const char* text_type = "text/plain; charset=utf-8";
constexpr const char* exposition_type = "text/plain; version=0.0.4; charset=utf-8";

/// A connection in the form that cpp-httplib's parser takes: a request that has come whole, and the
/// answer to it.
class exchange final : public httplib::Stream {
public:
  explicit exchange(const std::string& request) : rest_(request) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override {
    const auto count = rest_.copy(to, size);
    rest_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, size_t size) override {
    answer.append(from, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return INVALID_SOCKET; }

  std::string answer;

private:
  std::string_view rest_;
};

/// cpp-httplib's server as far as it parses requests and finds their handlers. The library's own
/// loop is not used: it gives each connection a thread until the connection has said something, so
/// two silent ones would block it.
class request_handler final : public httplib::Server {
public:
  ~request_handler() override { ::close(svr_sock_); }

  /// The bound socket of the server, listening and non-blocking.
  socket_t listener() const noexcept { return svr_sock_; }
  /// Sets the length of the accept queue again: the library listens with a backlog of 5, which a
  /// few dashboards at once overflow.
  void prepare_listener() noexcept {
    ::listen(svr_sock_, http_server::backlog_connections_max);
    ::fcntl(svr_sock_, F_SETFL, ::fcntl(svr_sock_, F_GETFL) | O_NONBLOCK);
  }

  /// Whether the head of a request has more lines than a client of ours would send.
  static bool too_many_headers(const std::string& request) {
    std::size_t lines = 0;
    for (auto at = request.find("\r\n"); at != std::string::npos; at = request.find("\r\n", at + 2))
      ++lines;
    return lines > http_server::headers_max + 2; // The request's line, and the empty one.
  }

  /// @param all whether who asks may see all, or the probes' paths alone
  std::string answer_to(const std::string& request, bool all) {
    sees_all_ = all;
    if (too_many_headers(request))
      return "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n"
             "Connection: close\r\n\r\n";
    exchange one{request};
    bool closed = false;
    // Debian 13's version of the library asks for the addresses of both sides, at which no handler
    // looks.
    const auto process = [&](auto& self) {
      if constexpr (requires { self.process_request(one, true, closed, nullptr); })
        self.process_request(one, true, closed, nullptr);
      else
        self.process_request(one, {}, 0, {}, 0, true, closed, nullptr);
    };
    process(*this);
    return std::move(one.answer);
  }
  /// Whether the request that is being answered is for who has no certificate, too.
  bool lets_see(const std::string& path) const {
    return sees_all_ || path == "/healthz" || path == "/readyz";
  }

private:
  bool sees_all_ = true;
};

/// Sets only SO_REUSEADDR on the listening socket. The library's default sets SO_REUSEPORT as well:
/// two nodes would then share one port, and each would get half of the scrapes.
void set_socket_options(socket_t fd) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

/// Answers what is refused before any handler sees it: strangers, writes, and ranges, of which a
/// short request can name so many that the answer has a thousand times the bytes of the whole.
httplib::Server::HandlerResponse refuse(const request_handler& handler,
                                        const httplib::Request& request,
                                        httplib::Response& response) {
  const bool ranges = request.has_header("Range");
  if (ranges)
    const_cast<httplib::Request&>(request).ranges.clear(); // The library cuts every answer by them.
  if (!handler.lets_see(request.path)) {
    response.status = 403;
    response.set_content("this takes a certificate of the cluster\n", text_type);
    return httplib::Server::HandlerResponse::Handled;
  }
  if (ranges) {
    response.status = 400;
    response.set_content("no ranges\n", text_type);
    return httplib::Server::HandlerResponse::Handled;
  }
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

/// Serves a file of the page as it is stored, compressed: who takes no gzip is told so.
void serve_asset(httplib::Server& server, const dashboard_asset& asset) {
  const auto path = std::regex_replace(std::string(asset.path), std::regex("\\."), "\\.");
  server.Get(path, [asset](const auto& request, auto& response) {
    if (request.get_header_value("Accept-Encoding").find("gzip") == std::string::npos) {
      response.status = 406;
      response.set_content("this page is sent as gzip: curl --compressed\n", text_type);
      return;
    }
    response.set_header("Content-Encoding", "gzip");
    // A content of a known length that is provided piece by piece is not compressed once more.
    response.set_content_provider(asset.gzipped.size(), std::string(asset.type) + "; charset=utf-8",
                                  [asset](std::size_t at, std::size_t length, auto& sink) {
                                    return sink.write(asset.gzipped.data() + at, length);
                                  });
  });
}

/// Routes of the page, and of the answers that it shows.
void add_dashboard(httplib::Server& server, decltype(http_content::api) api) {
  for (const auto& asset : dashboard_assets())
    serve_asset(server, asset);
  server.Get("/api/([a-z]+)", [api = std::move(api)](const auto& request, auto& response) {
    const auto answer = api(request.matches[1], request.params);
    response.status = answer.status;
    if (answer.status == 202)
      response.set_header("Retry-After", "1");
    response.set_content(answer.json, "application/json");
  });
}

void add_routes(httplib::Server& server, http_content content) {
  serve_text(server, "/metrics", exposition_type, std::move(content.metrics_text));
  serve_text(server, "/status\\.json", "application/json", std::move(content.status_json));
  serve_constant(server, "/healthz", text_type, "ok\n");
  if (content.api)
    add_dashboard(server, std::move(content.api));
  server.Get("/readyz", [ask = std::move(content.node_readiness)](const auto&, auto& response) {
    const readiness now = ask();
    response.status = now.ready ? 200 : 503;
    response.set_content(now.ready ? "ready\n" : "not ready: " + now.reason + "\n", text_type);
  });
}

} // namespace

struct http_server::state {
  request_handler handler;
  std::uint16_t port = 0;
  http_connection::patience patience;
  std::shared_ptr<net::tls_context> tls; ///< Null: connections are plain.
  bool open_to_strangers = false;
  int stop = -1;                          ///< An eventfd that is readable from stop() on.
  std::list<http_connection> connections; ///< Open connections, oldest first.
  time_point accept_again{};
  log_limit lines, refusals;

  ~state() { ::close(stop); }

  void run();
  /// Waits for events of the sockets; false when stop() was called.
  bool wait(std::vector<pollfd>& polled);
  void serve(const std::vector<pollfd>& polled, time_point now);
  std::string answer_to(const http_connection& who, time_point now);
  void tell(const http_connection& refused, const std::string& why, time_point now);
  void accept_all(time_point now);
  void make_room();
};

/// Waits until a socket can be read or written, or the time of a connection is over.
bool http_server::state::wait(std::vector<pollfd>& polled) {
  polled.clear();
  const auto now = clock::now();
  auto until = now + std::chrono::minutes(1);
  polled.push_back({stop, POLLIN, 0});
  polled.push_back({now < accept_again ? -1 : handler.listener(), POLLIN, 0});
  if (now < accept_again)
    until = accept_again;
  for (const auto& each : connections) {
    polled.push_back({each.fd(), each.events(), 0});
    until = std::min(until, each.until());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
  ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  return polled[0].revents == 0;
}

void http_server::state::serve(const std::vector<pollfd>& polled, time_point now) {
  std::size_t index = 2;
  for (auto each = connections.begin(); each != connections.end(); ++index) {
    using phase = http_connection::state;
    auto at = polled[index].revents != 0 ? each->advance(now) : each->where();
    if (at == phase::asked) {
      each->answer(answer_to(*each, now), now);
      at = each->where();
    }
    if (!each->refusal().empty())
      tell(*each, each->refusal(), now);
    each = at == phase::over || each->until() <= now ? connections.erase(each) : std::next(each);
  }
}

std::string http_server::state::answer_to(const http_connection& who, time_point now) {
  const bool all = tls == nullptr || open_to_strangers || who.is_known();
  auto answer = handler.answer_to(who.request(), all);
  if (answer.starts_with("HTTP/1.1 403"))
    tell(who, "it shows no certificate", now);
  return answer;
}

void http_server::state::tell(const http_connection& refused, const std::string& why,
                              time_point now) {
  const auto address = net::address_of_peer(refused.fd());
  if (refusals.allows(address, now))
    log::warn("HTTP: refused {}: {}", address, peer_text(why));
}

/// Closes the oldest connection of the least important kind: first those whose answer is sent, then
/// those that have asked nothing yet, then those that receive an answer.
void http_server::state::make_room() {
  using phase = http_connection::state;
  for (const auto at : {phase::ending, phase::greeting, phase::reading, phase::sending})
    for (auto each = connections.begin(); each != connections.end(); ++each)
      if (each->where() == at) {
        connections.erase(each);
        return;
      }
}

void http_server::state::accept_all(time_point now) {
  for (std::size_t i = 0; i < accepted_per_turn; ++i) {
    net::unique_fd fd(
        ::accept4(handler.listener(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool full = !fd && (errno == EMFILE || errno == ENFILE);
    if (full && lines.allows("", now))
      log::warn("HTTP: no descriptor is left; raise the limit of open files (ulimit -n, "
                "LimitNOFILE)");
    if (full)
      // With no descriptor left the listening socket stays readable, so it is not polled for a
      // pause; otherwise the loop would be busy.
      accept_again = now + no_descriptor_pause;
    if (!fd)
      return;
    if (connections.size() == connections_max)
      make_room();
    std::optional<net::tls_session> session;
    if (tls)
      session.emplace(tls->accepted_from_anyone(fd.get()));
    connections.emplace_back(net::stream_socket(std::move(fd), std::move(session)), patience, now);
  }
}

void http_server::state::run() {
  std::vector<pollfd> polled;
  while (wait(polled)) {
    const auto now = clock::now();
    serve(polled, now);
    if (polled[1].revents != 0)
      accept_all(now);
  }
  connections.clear();
}

http_server::http_server(std::unique_ptr<state> s) : state_(std::move(s)) {}
http_server::~http_server() = default;

result<std::unique_ptr<http_server>> http_server::listen(const http_options& options,
                                                         http_content content) {
  PEERCACHE_ASSERT(content.metrics_text && content.node_readiness && content.status_json);
  auto made = std::make_unique<state>();
  made->patience = {options.read_timeout, options.write_timeout};
  made->stop = ::eventfd(0, EFD_CLOEXEC);
  if (made->stop < 0)
    return {errc::io_failed, std::string{"HTTP: no descriptor: "} + std::strerror(errno)};
  made->handler.set_socket_options(set_socket_options);
  made->handler.set_pre_routing_handler(
      [handler = &made->handler](const httplib::Request& request, httplib::Response& response) {
        return refuse(*handler, request, response);
      });
  made->tls = options.tls;
  made->open_to_strangers = options.open_to_strangers;
  made->handler.set_default_headers({{"Content-Security-Policy", content_policy},
                                     {"X-Content-Type-Options", "nosniff"},
                                     {"Cache-Control", "no-store"}});
  add_routes(made->handler, std::move(content));
  errno = 0;
  const int port = options.port == 0 ? made->handler.bind_to_any_port(options.host)
                   : made->handler.bind_to_port(options.host, options.port) ? options.port
                                                                            : -1;
  if (port <= 0)
    return {errc::io_failed, "HTTP cannot listen on " + options.host + ":" +
                                 std::to_string(options.port) + ": " +
                                 (errno == 0 ? "no such address" : std::strerror(errno))};
  made->handler.prepare_listener();
  made->port = static_cast<std::uint16_t>(port);
  return std::unique_ptr<http_server>{new http_server{std::move(made)}};
}

std::uint16_t http_server::port() const noexcept {
  return state_->port;
}

void http_server::run() {
  state_->run();
}

void http_server::stop() noexcept {
  ::eventfd_write(state_->stop, 1);
}

} // namespace peercache::metrics
