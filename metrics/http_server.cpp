#include "metrics/http_server.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"
#include "common/log_limit.hpp"
#include "common/printable.hpp"
#include "metrics/http_connection.hpp"
#include "metrics/http_routes.hpp"
#include "net/socket.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
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

/// Answers to queries, and news that a scrape's numbers are new, on their way from the threads that
/// make them to the server's thread.
struct reply_box {
  int ready = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); ///< Readable while there are answers.

  ~reply_box() { ::close(ready); }
  void put(std::uint64_t query, api_answer answer) {
    const std::lock_guard guard(lock_);
    news_.answers.emplace_back(query, std::move(answer));
    ::eventfd_write(ready, 1);
  }
  /// What has come: answers to queries, and numbers of scrapes.
  struct news {
    std::vector<std::pair<std::uint64_t, api_answer>> answers;
    std::vector<std::uint64_t> renewed;
  };
  news take() {
    const std::lock_guard guard(lock_);
    eventfd_t count = 0;
    ::eventfd_read(ready, &count);
    return std::exchange(news_, {});
  }
  void put_renewed(std::uint64_t scrape) {
    const std::lock_guard guard(lock_);
    news_.renewed.push_back(scrape);
    ::eventfd_write(ready, 1);
  }

private:
  /// Guards `news_`, to which any thread adds; held only while a few strings are moved.
  std::mutex lock_;
  news news_;
};

/// A query that is being answered, whether its client still waits or has gone.
class open_call {
public:
  explicit open_call(std::shared_ptr<std::atomic<std::size_t>> calls) : calls_(std::move(calls)) {
    ++*calls_;
  }
  ~open_call() { end(); }
  open_call(const open_call&) = delete;
  open_call& operator=(const open_call&) = delete;
  void end() noexcept {
    if (!ended_.exchange(true))
      --*calls_;
  }

private:
  std::shared_ptr<std::atomic<std::size_t>> calls_;
  std::atomic<bool> ended_ = false;
};

/// A connection, and the number of its query, or of its scrape, while the answer is being made.
struct http_client final : http_connection {
  using http_connection::http_connection;
  std::uint64_t number = 0;
  std::string scrape;   ///< Head of a scrape that waits for new numbers; empty: none does.
  time_point give_up{}; ///< When the scrape is answered with old numbers.

  bool is_scraping() const { return where() == state::waiting && !scrape.empty(); }
};

/// The whole answer to a query, in HTTP.
std::string text_of(const api_answer& answer) {
  const char* reason = answer.status == 200   ? "OK"
                       : answer.status == 400 ? "Bad Request"
                                              : "Service Unavailable";
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
                     "Cache-Control: no-store\r\nConnection: close\r\n\r\n{}",
                     answer.status, reason, answer.json.size(), answer.json);
}

std::string too_many_queries() {
  return text_of({503, "{\"error\":\"too many queries at a time\"}"});
}

/// Sets only SO_REUSEADDR on the listening socket. The library's default sets SO_REUSEPORT as well:
/// two nodes would then share one port, and each would get half of the scrapes.
void set_socket_options(socket_t fd) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

} // namespace

struct http_server::state {
  request_handler handler;
  std::uint16_t port = 0;
  http_connection::patience patience;
  std::shared_ptr<net::tls_context> tls; ///< Null: connections are plain.
  bool sees_all = true; ///< Whether a client without a certificate may ask for everything.
  int stop = -1;        ///< An eventfd that is readable from stop() on.
  std::list<http_client> connections; ///< Open connections, oldest first.
  time_point accept_again{};
  log_limit lines, refusals;
  decltype(http_content::query) ask;
  decltype(http_content::renew) renew;
  std::chrono::milliseconds renewal_timeout{0};
  std::shared_ptr<reply_box> replies = std::make_shared<reply_box>();
  std::uint64_t last_number = 0;
  /// How many queries are being answered; shared with their replies, which outlive the server.
  std::shared_ptr<std::atomic<std::size_t>> calls = std::make_shared<std::atomic<std::size_t>>(0);

  ~state() { ::close(stop); }

  void run();
  /// Waits for events of the sockets; false when stop() was called.
  bool wait(std::vector<pollfd>& polled);
  void serve(const std::vector<pollfd>& polled, time_point now);
  /// Answers a request that has come whole; a query is passed on and answered later.
  void answer(http_client& who, time_point now);
  /// Has the numbers renewed that a scrape is to tell.
  void hold_scrape(http_client& who, time_point now);
  /// Answers a scrape whose numbers are new, or for which they are awaited no longer.
  void tell_numbers(http_client& who, time_point now);
  void give_answers(time_point now);
  /// How many queries are being received or answered.
  std::size_t open_queries() const;
  void tell(const http_connection& refused, const std::string& why, time_point now);
  void accept_all(time_point now);
  void make_room();
};

/// Waits until a socket can be read or written, or until a connection's `until()`.
bool http_server::state::wait(std::vector<pollfd>& polled) {
  polled.clear();
  const auto now = clock::now();
  auto until = now + std::chrono::minutes(1);
  polled.push_back({stop, POLLIN, 0});
  polled.push_back({now < accept_again ? -1 : handler.listener(), POLLIN, 0});
  polled.push_back({replies->ready, POLLIN, 0});
  if (now < accept_again)
    until = accept_again;
  for (const auto& each : connections) {
    polled.push_back({each.fd(), each.events(), 0});
    until = std::min(until, each.is_scraping() ? each.give_up : each.until());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
  ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  return polled[0].revents == 0;
}

void http_server::state::serve(const std::vector<pollfd>& polled, time_point now) {
  std::size_t index = 3;
  for (auto each = connections.begin(); each != connections.end(); ++index) {
    using phase = http_connection::state;
    auto at = polled[index].revents != 0 ? each->advance(now) : each->where();
    if (at == phase::asked) {
      answer(*each, now);
      at = each->where();
    }
    if (each->is_scraping() && each->give_up <= now) {
      tell_numbers(*each, now);
      at = each->where();
    }
    if (each->is_taking_body() && open_queries() > queries_max) {
      each->answer(too_many_queries(), now);
      at = each->where();
    }
    if (!each->refusal().empty())
      tell(*each, each->refusal(), now);
    each = at == phase::over || each->until() <= now ? connections.erase(each) : std::next(each);
  }
}

void http_server::state::answer(http_client& who, time_point now) {
  auto made = handler.answer_to(who.head(), sees_all || who.is_known(), false);
  if (made.starts_with("HTTP/1.1 403"))
    tell(who, "it shows no certificate", now);
  if (handler.take_wish_to_renew())
    return hold_scrape(who, now);
  auto query = handler.take_query();
  if (!query)
    return who.answer(std::move(made), now);
  if (open_queries() >= queries_max || *calls >= queries_max)
    return who.answer(too_many_queries(), now);
  std::string body(who.body());
  who.number = ++last_number;
  who.wait(now);
  ask(query->by_hash, std::move(body),
      [box = replies, number = who.number,
       call = std::make_shared<open_call>(calls)](api_answer answer) {
        call->end();
        box->put(number, std::move(answer));
      });
}

void http_server::state::hold_scrape(http_client& who, time_point now) {
  who.scrape = who.head();
  who.number = ++last_number;
  who.give_up = now + renewal_timeout;
  who.wait(now);
  renew([box = replies, number = who.number] { box->put_renewed(number); });
}

void http_server::state::tell_numbers(http_client& who, time_point now) {
  who.answer(handler.answer_to(std::exchange(who.scrape, {}), true, true), now);
}

void http_server::state::give_answers(time_point now) {
  const auto news = replies->take();
  for (const auto scrape : news.renewed)
    for (auto& each : connections)
      if (each.number == scrape && each.is_scraping())
        tell_numbers(each, now);
  for (const auto& [query, answer] : news.answers)
    for (auto& each : connections)
      if (each.number == query && each.where() == http_connection::state::waiting)
        each.answer(text_of(answer), now);
}

std::size_t http_server::state::open_queries() const {
  const auto open = std::count_if(connections.begin(), connections.end(), [](const auto& each) {
    return each.is_taking_body() ||
           (each.where() == http_connection::state::waiting && each.scrape.empty());
  });
  return static_cast<std::size_t>(open);
}

void http_server::state::tell(const http_connection& refused, const std::string& why,
                              time_point now) {
  const auto address = net::peer_host(refused.fd());
  if (refusals.allows(address, now))
    log::warn("HTTP: refused {}: {}", address, peer_text(why));
}

/// Closes the oldest connection of the least important kind: first a connection whose answer is
/// sent, then one that has asked nothing yet, then a scrape that waits for new numbers, then one
/// whose query or answer is on its way.
void http_server::state::make_room() {
  using phase = http_connection::state;
  const auto close_first = [this](auto chosen) {
    const auto found = std::find_if(connections.begin(), connections.end(), chosen);
    if (found != connections.end())
      connections.erase(found);
    return found != connections.end();
  };
  const auto in = [](phase wanted) {
    return [wanted](const http_client& each) { return each.where() == wanted; };
  };
  close_first(in(phase::ending)) || close_first(in(phase::greeting)) ||
      close_first([](const http_client& each) {
        return each.where() == phase::reading && !each.is_taking_body();
      }) ||
      close_first([](const http_client& each) { return each.is_scraping(); }) ||
      close_first(in(phase::reading)) || close_first(in(phase::sending)) ||
      close_first(in(phase::waiting));
}

void http_server::state::accept_all(time_point now) {
  using bodies = http_connection::bodies;
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
    connections.emplace_back(net::stream_socket(std::move(fd), std::move(session)), patience,
                             sees_all ? bodies::of_all : bodies::of_members, now);
  }
}

void http_server::state::run() {
  std::vector<pollfd> polled;
  while (wait(polled)) {
    const auto now = clock::now();
    serve(polled, now);
    if (polled[2].revents != 0)
      give_answers(now);
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
  made->patience = {options.read_timeout, options.write_timeout, options.query_timeout};
  made->ask = content.query;
  made->renew = content.renew;
  made->renewal_timeout = options.renewal_timeout;
  made->stop = ::eventfd(0, EFD_CLOEXEC);
  if (made->stop < 0 || made->replies->ready < 0)
    return {errc::io_failed, std::string{"HTTP: no descriptor: "} + std::strerror(errno)};
  made->handler.set_socket_options(set_socket_options);
  made->tls = options.tls;
  made->sees_all = options.tls == nullptr || options.open_to_strangers;
  made->handler.add_routes(std::move(content));
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
