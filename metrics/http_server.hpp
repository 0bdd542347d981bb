#pragma once

#include "common/result.hpp"
#include "net/tls_context.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace peercache::metrics {

/// Whether the node takes work now, and if not, why: "draining", "joining: …", "pool: …".
struct readiness {
  bool ready = false;
  std::string reason;
};

/// The parameters in the query of a URL, by name.
using http_parameters = std::multimap<std::string, std::string>;

/// An answer in JSON, for programs and for the page.
struct api_answer {
  int status = 200; ///< 202: what was asked for is being collected; the asker is to ask again.
  std::string json;
};

/// Hands the answer to a query to the server. Call it once, from any thread, even after the server
/// has ended. The query counts as open until the call, or until all copies of the function are
/// gone.
using http_reply = std::function<void(api_answer)>;

/// The functions that make the server's answers. The server's thread calls them; each must return
/// at once and must not throw, so most read a `published` value.
struct http_content {
  std::function<std::string()> metrics_text;
  std::function<readiness()> node_readiness;
  std::function<std::string()> status_json;
  /// Answers `/api/NAME`. Empty: neither the page at `/` nor `/api/` is served.
  std::function<api_answer(const std::string& name, const http_parameters&)> api;
  /// Takes a query of a router, whose answer comes later. `by_hash`: the body names blocks by their
  /// hashes and not by tokens. Empty: there are no queries.
  std::function<void(bool by_hash, std::string body, http_reply reply)> query = {};
  /// Has what `metrics_text` and `status_json` tell renewed, and then calls `done`, from any
  /// thread. The server waits at most `http_options::renewal_timeout` for that call, and answers
  /// with what is there. Empty: both are always new.
  std::function<void(std::function<void()> done)> renew = {};
};

struct http_options {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;                ///< Port to listen on; 0: any free one.
  std::shared_ptr<net::tls_context> tls; ///< Null: connections are plain.
  /// Whether under TLS a client without a certificate may ask for more than /healthz and /readyz.
  bool open_to_strangers = false;
  /// Time from the begin of a connection to the end of its request, TLS's handshake and a query's
  /// body included.
  std::chrono::milliseconds read_timeout{2000};
  /// How long a client may take no byte of its answer.
  std::chrono::milliseconds write_timeout{2000};
  /// How long the answer to a query may take; then the connection is closed.
  std::chrono::milliseconds query_timeout{3000};
  /// How long a scrape waits for new numbers, before it is answered with those of before.
  std::chrono::milliseconds renewal_timeout{300};
};

/// The node's HTTP port:
///   /metrics      Prometheus' text format
///   /healthz      200 while the process answers
///   /readyz       200 "ready", or 503 with the reason
///   /status.json  the node's state, for programs
///   /api/NAME     the cluster's state, for programs and for the page
///   /             a page that shows the cluster, refreshed; asks nobody but this server
///   /query, /query_by_hash   with POST: how much of a prompt each node has
/// Everything is read-only: methods other than GET and HEAD, and POST of a query, are refused with
/// 405.
///
/// Under TLS a certificate that is shown must be a member's; a client that shows none is answered
/// 403, except at /healthz and /readyz, since probes have none, and unless `open_to_strangers`.
/// Refusals cause one line of the log a minute for each address.
///
/// Threads: run() blocks the caller until stop(), which may come from any thread, before or during
/// run(). It serves all connections and waits for none of them: a client that is silent, drips
/// bytes or takes none costs other clients nothing.
/// Ownership: run() must have returned before the server is destroyed.
/// Errors: listen() returns why the port cannot be had; a faulty client costs only its connection.
/// Limits: `headers_max` lines in a request, no ranges; `connections_max` at a time, beyond which
/// the oldest of the least important connections is closed, `http_connection::head_bytes_max` of a
/// request's head, `body_bytes_max` of a query's body, and `queries_max` queries at a time, beyond
/// which queries are answered 503. One request per connection.
class http_server {
public:
  static constexpr std::size_t connections_max = 256;
  static constexpr std::size_t headers_max = 64;
  static constexpr std::size_t queries_max = 64;
  static constexpr int backlog_connections_max = 512;

  /// Binds and listens. From then on the kernel takes connections; run() answers them.
  static result<std::unique_ptr<http_server>> listen(const http_options& options,
                                                     http_content content);
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  std::uint16_t port() const noexcept;
  void run();
  void stop() noexcept;

private:
  struct state;
  explicit http_server(std::unique_ptr<state> s);

  std::unique_ptr<state> state_;
};

} // namespace peercache::metrics
