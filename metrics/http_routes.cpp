#include "metrics/http_routes.hpp"

#include "metrics/dashboard_assets.hpp"
#include "metrics/http_connection.hpp"

#include <cstdint>
#include <functional>
#include <regex>
#include <string_view>

namespace peercache::metrics {

namespace {

/// The header Content-Security-Policy: browsers run and show only files of this server, and no
/// inline script or style.
constexpr const char* content_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr const char* text_type = "text/plain; charset=utf-8";
constexpr const char* exposition_type = "text/plain; version=0.0.4; charset=utf-8";

/// A connection in the form that cpp-httplib's parser takes: the head of a request, and the answer
/// to it.
class exchange final : public httplib::Stream {
public:
  explicit exchange(std::string_view head) : rest_(head) {}

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

/// Whether the head of a request has more header lines than the server takes.
bool too_many_headers(std::string_view head) {
  std::size_t lines = 0;
  for (auto at = head.find("\r\n"); at != head.npos; at = head.find("\r\n", at + 2))
    ++lines;
  return lines > http_server::headers_max + 2; // Headers, the request's line, and the empty one.
}

void serve_constant(httplib::Server& server, const char* path, const char* type,
                    std::string_view text) {
  server.Get(path, [type, text](const auto&, auto& response) {
    response.set_content(text.data(), text.size(), type);
  });
}

/// Serves a file of the page as it is stored, compressed by gzip; a client that does not accept
/// gzip gets status 406.
void serve_asset(httplib::Server& server, const dashboard_asset& asset) {
  const auto path = std::regex_replace(std::string(asset.path), std::regex("\\."), "\\.");
  server.Get(path, [asset](const auto& request, auto& response) {
    if (request.get_header_value("Accept-Encoding").find("gzip") == std::string::npos) {
      response.status = 406;
      response.set_content("this page is sent as gzip: curl --compressed\n", text_type);
      return;
    }
    response.set_header("Content-Encoding", "gzip");
    // With a content provider of known length cpp-httplib does not compress the file once more.
    response.set_content_provider(asset.gzipped.size(), std::string(asset.type) + "; charset=utf-8",
                                  [asset](std::size_t at, std::size_t length, auto& sink) {
                                    return sink.write(asset.gzipped.data() + at, length);
                                  });
  });
}

/// Adds the routes of the page, and of the answers that it shows.
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

} // namespace

std::string request_handler::answer_to(std::string_view head, bool all, bool renewed) {
  sees_all_ = all;
  is_renewed_ = renewed;
  if (too_many_headers(head))
    return "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\n"
           "Connection: close\r\n\r\n";
  exchange one{head};
  bool closed = false;
  // Debian 13's cpp-httplib takes the addresses of client and server as well; no handler looks at
  // them.
  const auto process = [&](auto& self) {
    if constexpr (requires { self.process_request(one, true, closed, nullptr); })
      self.process_request(one, true, closed, nullptr);
    else
      self.process_request(one, {}, 0, {}, 0, true, closed, nullptr);
  };
  process(*this);
  return std::move(one.answer);
}

/// Answers requests that no handler may see: those of clients that may not see the path, methods
/// that write, and ranges (by many ranges a short request can make the answer a thousand times as
/// long as the file).
httplib::Server::HandlerResponse request_handler::refuse(const httplib::Request& request,
                                                         httplib::Response& response) const {
  const bool ranges = request.has_header("Range");
  if (ranges)
    // The library would cut every answer by the ranges of the request.
    const_cast<httplib::Request&>(request).ranges.clear();
  if (!lets_see(request.path)) {
    response.status = 403;
    response.set_content("this takes a certificate of the cluster\n", text_type);
    return HandlerResponse::Handled;
  }
  if (ranges) {
    response.status = 400;
    response.set_content("no ranges\n", text_type);
    return HandlerResponse::Handled;
  }
  if (request.method == "GET" || request.method == "HEAD")
    return HandlerResponse::Unhandled;
  if (takes_queries_ && is_query(request.method + " " + request.path + " "))
    return refuse_query(request, response);
  response.status = 405;
  response.set_header("Allow", "GET, HEAD");
  response.set_content("only GET and HEAD\n", text_type);
  return HandlerResponse::Handled;
}

/// Refuses a query whose body is compressed, has no length, or is too long to be awaited.
httplib::Server::HandlerResponse request_handler::refuse_query(const httplib::Request& request,
                                                               httplib::Response& response) const {
  if (request.has_header("Content-Encoding")) {
    response.status = 415;
    response.set_content("the body of a query is not compressed\n", text_type);
    return HandlerResponse::Handled;
  }
  const bool in_chunks = request.has_header("Transfer-Encoding");
  const auto length =
      in_chunks ? 0
                : content_length_of(
                      "\r\nContent-Length: " + request.get_header_value("Content-Length") + "\r\n");
  if (length > 0 && length <= http_connection::body_bytes_max)
    return HandlerResponse::Unhandled;
  response.status = length == 0 ? 411 : 413;
  response.set_content(length == 0 ? "a query has a body, and its length\n"
                                   : "the body of a query is too long\n",
                       text_type);
  return HandlerResponse::Handled;
}

void request_handler::serve_renewed(const char* path, const char* type,
                                    std::function<std::string()> provider) {
  Get(path, [this, type, provider = std::move(provider)](const auto&, auto& response) {
    wants_new_ = renews_ && !is_renewed_;
    if (!wants_new_)
      response.set_content(provider(), type);
  });
}

void request_handler::add_routes(http_content content) {
  set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    return refuse(request, response);
  });
  set_default_headers({{"Content-Security-Policy", content_policy},
                       {"X-Content-Type-Options", "nosniff"},
                       {"Cache-Control", "no-store"}});
  takes_queries_ = static_cast<bool>(content.query);
  renews_ = static_cast<bool>(content.renew);
  for (const bool by_hash : {false, true})
    // The handler takes a reader of the body, and never calls it: so the library reads no body.
    Post(by_hash ? "/query_by_hash" : "/query",
         [this, by_hash](const httplib::Request&, httplib::Response&,
                         const httplib::ContentReader&) { query_ = taken_query{by_hash}; });
  serve_renewed("/metrics", exposition_type, std::move(content.metrics_text));
  serve_renewed("/status\\.json", "application/json", std::move(content.status_json));
  serve_constant(*this, "/healthz", text_type, "ok\n");
  if (content.api)
    add_dashboard(*this, std::move(content.api));
  Get("/readyz", [ask = std::move(content.node_readiness)](const auto&, auto& response) {
    const readiness now = ask();
    response.status = now.ready ? 200 : 503;
    response.set_content(now.ready ? "ready\n" : "not ready: " + now.reason + "\n", text_type);
  });
}

} // namespace peercache::metrics
