#pragma once

#include "metrics/http_server.hpp"

#include <functional>
#include <httplib.h>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace peercache::metrics {

/// A router's query that was taken: /query, or /query_by_hash (`by_hash`). The connection has the
/// query's body.
struct taken_query {
  bool by_hash = false;
};

/// cpp-httplib's server as far as it parses requests and finds their handlers. The library's own
/// loop is not used: it gives each connection a thread until the connection has said something, so
/// a few silent connections would block it.
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

  /// Adds all paths that the server has.
  void add_routes(http_content content);

  /// Returns the answer to a request, from its head. The body is never passed to cpp-httplib, which
  /// would unpack a compressed body without a limit, and takes only few bytes of a form's body.
  /// @param head the head of a request, with the empty line at its end
  /// @param all whether the client may see everything, or only the probes' paths
  /// @param renewed whether what the request tells was renewed for it
  std::string answer_to(std::string_view head, bool all, bool renewed);
  /// Call after `answer_to`: if that request was a query, returns the query, and forgets it; the
  /// string that `answer_to` returned is then not the answer. Nothing for other requests.
  std::optional<taken_query> take_query() { return std::exchange(query_, std::nullopt); }
  /// Call after `answer_to`: whether that request is to be answered once what it tells was renewed,
  /// by another call with `renewed`; the string that `answer_to` returned is then not the answer.
  bool take_wish_to_renew() { return std::exchange(wants_new_, false); }

private:
  HandlerResponse refuse(const httplib::Request& request, httplib::Response& response) const;
  HandlerResponse refuse_query(const httplib::Request& request, httplib::Response& response) const;
  /// Whether the client whose request is being answered may see this path.
  bool lets_see(const std::string& path) const {
    return sees_all_ || path == "/healthz" || path == "/readyz";
  }

  /// Adds a path whose text is renewed before it is told, if the content can be.
  void serve_renewed(const char* path, const char* type, std::function<std::string()> provider);

  bool sees_all_ = true;
  bool renews_ = false;
  bool is_renewed_ = false;
  bool wants_new_ = false;
  bool takes_queries_ = false;
  std::optional<taken_query> query_;
};

} // namespace peercache::metrics
