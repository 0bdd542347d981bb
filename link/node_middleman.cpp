#include "link/node_middleman.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"
#include "common/log_limit.hpp"
#include "common/result.hpp"
#include "link/forgetful_broker.hpp"
#include "link/scribe.hpp"
#include "link/system_config.hpp"
#include "net/tls_handshakes.hpp"

#include <caf/io/all.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace peercache::link {

namespace {

namespace network = caf::io::network;

/// Most connections that a broker has at once, accepted and made: enough for a thousand nodes with
/// eight clients each, and as many again.
constexpr std::size_t connections_max = 16'384;

/// Accepts connections. Without a free descriptor it uses its reserve to accept a connection and
/// close it: the peer learns of it, and the listening socket does not stay readable.
class accepting {
public:
  accepting() { take_reserve(); }
  ~accepting() { give_reserve(); }
  accepting(const accepting&) = delete;
  accepting& operator=(const accepting&) = delete;

  bool try_accept(network::native_socket& accepted, network::native_socket listener) {
    if (reserve_ < 0)
      take_reserve();
    accepted = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0)
      return true;
    if (errno == EMFILE || errno == ENFILE)
      turn_away(listener);
    return false;
  }

private:
  void turn_away(network::native_socket listener) {
    if (lines_.allows("", std::chrono::steady_clock::now()))
      log::warn("actors: no descriptor is left, connections are turned away; raise the limit of "
                "open files (ulimit -n, LimitNOFILE)");
    give_reserve();
    if (const int unwanted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); unwanted >= 0)
      ::close(unwanted);
    else
      // Another thread took the reserve, so the listener stays readable: without a pause this
      // thread would ask for ever.
      ::poll(nullptr, 0, 10);
    take_reserve();
  }
  void take_reserve() { reserve_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
  void give_reserve() {
    if (reserve_ >= 0)
      ::close(reserve_);
    reserve_ = -1;
  }

  int reserve_ = -1;
  log_limit lines_;
};

/// A thread in which strangers do the TLS handshake before a broker hears of them.
class handshake_thread {
public:
  explicit handshake_thread(std::unique_ptr<net::tls_handshakes> work)
      : work_(std::move(work)), thread_([this] { work_->run(); }) {}
  ~handshake_thread() { stop(); }
  handshake_thread(const handshake_thread&) = delete;
  handshake_thread& operator=(const handshake_thread&) = delete;

  net::tls_handshakes& work() noexcept { return *work_; }
  /// Ends the thread; connections that come later are closed.
  void stop() {
    work_->stop();
    if (thread_.joinable())
      thread_.join();
  }

private:
  const std::unique_ptr<net::tls_handshakes> work_;
  std::thread thread_;
};

/// What a doorman at a node's Unix socket has besides the socket.
struct host_door {
  net::host_users users;
  std::uint16_t port; ///< The control port, whose published actor is found at the socket as well.
};

/// CAF's own doorman, except that it accepts connections by `accepting`, and under TLS hands a
/// connection to the broker only after its handshake. At a Unix socket it admits only processes
/// whose user, as the kernel tells it, is served.
class doorman final : public caf::io::doorman {
public:
  /// @param strangers does the handshakes of TLS, and outlives the loop; null: connections are
  /// plain
  /// @param refused outlives the loop
  doorman(network::default_multiplexer& loop, network::native_socket listener,
          net::tls_handshakes* strangers, refused_messages& refused)
      : caf::io::doorman(network::accept_hdl_from_socket(listener)), acceptor_(loop, listener),
        strangers_(strangers), refused_(refused) {}
  doorman(network::default_multiplexer& loop, network::native_socket listener, host_door door,
          refused_messages& refused)
      : caf::io::doorman(network::accept_hdl_from_socket(listener)), acceptor_(loop, listener),
        strangers_(nullptr), refused_(refused), door_(door) {}

  /// Sets which peers TLS lets in. Must run before the doorman is launched.
  void keep_to(net::tls_peers members) noexcept { members_ = members; }

  bool new_connection() override {
    net::unique_fd accepted(acceptor_.accepted_socket());
    if (door_ && !admits(accepted.get()))
      return true;
    if (strangers_ == nullptr)
      return let_in(std::move(accepted), std::nullopt);
    if (detached())
      return false; // The broker has ended, and the socket is still in the event loop.
    strangers_->add(
        std::move(accepted),
        [self = caf::intrusive_ptr<doorman>(this)](net::unique_fd socket, net::tls_session tls) {
          self->acceptor_.backend().post(
              [self, socket = std::move(socket), tls = std::move(tls)]() mutable {
                self->let_in(std::move(socket), std::move(tls));
              });
        },
        members_);
    return true;
  }
  void graceful_shutdown() override {
    acceptor_.graceful_shutdown();
    detach(&acceptor_.backend(), false);
  }
  void launch() override { acceptor_.start(this); }
  std::string addr() const override {
    auto known = network::local_addr_of_fd(acceptor_.fd());
    return known ? std::move(*known) : "";
  }
  std::uint16_t port() const override {
    if (door_)
      return door_->port;
    const auto known = network::local_port_of_fd(acceptor_.fd());
    return known ? *known : std::uint16_t{0};
  }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

private:
  /// Whether the process at the other end of a Unix socket belongs to a user who is served.
  bool admits(int accepted) {
    const auto judged = door_->users.judge(accepted);
    if (!judged && lines_.allows(judged.error().message, std::chrono::steady_clock::now()))
      log::warn("actors: refused a process at the Unix socket: {}", judged.error().message);
    return static_cast<bool>(judged);
  }

  /// Gives a connection to the broker. False: the broker has ended.
  bool let_in(net::unique_fd accepted, std::optional<net::tls_session> tls) {
    if (detached())
      return false; // The broker has ended, and the socket is still in the event loop.
    auto& loop = acceptor_.backend();
    if (parent()->num_connections() >= connections_max) {
      if (lines_.allows("", std::chrono::steady_clock::now()))
        log::warn("actors: {} connections are open, further ones are turned away", connections_max);
      return true;
    }
    network::keepalive(accepted.get(), true);
    auto scribe =
        caf::make_counted<link::scribe>(loop, accepted.release(), std::move(tls), refused_);
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    if (auto* basp = dynamic_cast<forgetful_broker*>(parent()))
      basp->expect_greeting(handle);
    return caf::io::doorman::new_connection(&loop, handle);
  }

  network::acceptor_impl<accepting> acceptor_;
  net::tls_handshakes* const strangers_;
  refused_messages& refused_;
  const std::optional<host_door> door_; ///< Set at a Unix socket only.
  net::tls_peers members_ = net::tls_peers::members;
  log_limit lines_;
};

class multiplexer final : public network::default_multiplexer {
public:
  using default_multiplexer::default_multiplexer;

  caf::expected<caf::io::doorman_ptr> new_tcp_doorman(std::uint16_t port, const char* host,
                                                      bool reuses_address) override {
    if (auto ready = handshakes(); !ready)
      return caf::make_error(caf::sec::cannot_open_port, ready.error().message);
    return default_multiplexer::new_tcp_doorman(port, host, reuses_address);
  }
  caf::io::doorman_ptr new_doorman(network::native_socket listener) override {
    PEERCACHE_ASSERT(handshakes_ || !tls_of(system())); // A port under TLS never accepts plainly.
    return caf::make_counted<doorman>(*this, listener, handshakes_ ? &handshakes_->work() : nullptr,
                                      refused_);
  }
  caf::io::scribe_ptr new_scribe(network::native_socket connected) override {
    return new_scribe(net::unique_fd(connected), std::nullopt);
  }
  caf::io::scribe_ptr new_scribe(net::unique_fd connected, std::optional<net::tls_session> tls) {
    network::keepalive(connected.get(), true);
    return caf::make_counted<scribe>(*this, connected.release(), std::move(tls), refused_);
  }
  refused_messages& refused() noexcept { return refused_; }

  /// Ends the handshakes of TLS. Must run before the loop ends, since their thread posts to the
  /// loop.
  void end_handshakes() {
    const std::lock_guard guard(lock_);
    if (handshakes_)
      handshakes_->stop();
  }

  /// Returns the object that does the TLS handshakes of strangers; null without TLS. The first
  /// listening socket makes it, so that processes that only dial have no thread for it.
  result<net::tls_handshakes*> handshakes() {
    auto tls = tls_of(system());
    if (!tls)
      return nullptr;
    const std::lock_guard guard(lock_);
    if (!handshakes_) {
      auto work = net::tls_handshakes::create(std::move(tls));
      if (!work)
        return work.error();
      handshakes_ = std::make_unique<handshake_thread>(std::move(*work));
    }
    return &handshakes_->work();
  }

private:
  refused_messages refused_;
  std::mutex lock_; ///< Guards the making of `handshakes_`: ports are opened by several threads.
  std::unique_ptr<handshake_thread> handshakes_;
};

class middleman final : public caf::io::middleman {
public:
  explicit middleman(caf::actor_system& system) : caf::io::middleman(system), loop_(&system) {}

  network::multiplexer& backend() override { return loop_; }
  void start() override {
    // CAF uses the broker that is the first to take this name.
    named_broker<forgetful_broker>(caf::atom("BASP"));
    caf::io::middleman::start();
    // A broker that is stopped before it has begun is never freed: wait until the loop runs.
    std::promise<void> begun;
    loop_.post([&begun] {
      ::pthread_setname_np(::pthread_self(), "peercache-net");
      begun.set_value();
    });
    begun.get_future().wait();
  }
  void stop() override {
    loop_.end_handshakes();
    caf::io::middleman::stop();
  }

private:
  multiplexer loop_;
};

} // namespace

caf::actor_system::module* make_node_middleman(caf::actor_system& system) {
  return new middleman(system);
}

namespace {

multiplexer& loop_of(caf::actor_system& system) {
  auto* loop = dynamic_cast<multiplexer*>(&system.middleman().backend());
  PEERCACHE_ASSERT(loop != nullptr); // Actor systems of ours have this middleman (system_config).
  return *loop;
}

} // namespace

caf::io::scribe_ptr new_scribe(caf::actor_system& system, net::unique_fd connected,
                               std::optional<net::tls_session> tls) {
  return loop_of(system).new_scribe(std::move(connected), std::move(tls));
}

caf::expected<caf::io::doorman_ptr> new_doorman(caf::actor_system& system, const std::string& host,
                                                std::uint16_t port, net::tls_peers members) {
  auto made = loop_of(system).new_tcp_doorman(port, host.c_str(), true);
  if (made)
    dynamic_cast<doorman&>(**made).keep_to(members);
  return made;
}

caf::io::doorman_ptr new_host_doorman(caf::actor_system& system, net::unique_fd listening,
                                      std::uint16_t port, net::host_users users) {
  auto& loop = loop_of(system);
  return caf::make_counted<doorman>(loop, listening.release(), host_door{users, port},
                                    loop.refused());
}

result<net::tls_handshakes*> handshakes_of(caf::actor_system& system) {
  return loop_of(system).handshakes();
}

} // namespace peercache::link
