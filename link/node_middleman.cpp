#include "link/node_middleman.hpp"

#include "common/log.hpp"
#include "common/log_limit.hpp"
#include "link/protocol/atoms.hpp"
#include "link/protocol/internal.hpp"

#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/scribe_impl.hpp>

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <future>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <unordered_map>

namespace peercache::link {

namespace {

namespace network = caf::io::network;

/// How many connections a broker has at once, accepted and made: a thousand nodes with eight
/// clients each, and as many again.
constexpr std::size_t connections_max = 16'384;
/// How long who connects may take to say who it is.
constexpr std::chrono::seconds greeting_patience{2};
constexpr std::chrono::milliseconds look_every{250};
/// Bytes that a peer may announce to send in one piece: in its greeting, and later.
constexpr std::size_t greeting_bytes_max = 64u << 10;
constexpr std::size_t piece_bytes_max = 64u << 20;

/// CAF's BASP broker, except that it forgets peers that are gone, and closes connections that say
/// nothing. CAF itself closes those that were greeted and fall silent (`connection-timeout`).
class forgetful_broker final : public caf::io::basp_broker {
public:
  using basp_broker::basp_broker;

  caf::behavior make_behavior() override {
    auto of_caf = basp_broker::make_behavior();
    delayed_send(this, look_every, beat_atom_v, from_here{});
    return caf::message_handler{[this](beat_atom, from_here) {
             close_silent();
             delayed_send(this, look_every, beat_atom_v, from_here{});
           }}
        .or_else(of_caf);
  }

  /// Notes that a connection was accepted just now.
  void expect_greeting(caf::io::connection_handle from) {
    greeting_due_[from] = clock().now() + greeting_patience;
  }

  void purge_state(const caf::node_id& gone) override {
    basp_broker::purge_state(gone);
    const auto helper = spawn_servers.find(gone);
    if (helper == spawn_servers.end())
      return;
    // The helper actor may still wait for an answer of the peer that is gone, so it is killed.
    caf::anon_send_exit(helper->second, caf::exit_reason::kill);
    spawn_servers.erase(helper);
  }

private:
  /// Closes accepted connections on which no whole header of a message has come.
  void close_silent() {
    std::erase_if(greeting_due_, [this](const auto& entry) {
      const auto& [from, due] = entry;
      if (!valid(from) || ctx.count(from) != 0)
        return true;
      if (due > clock().now())
        return false;
      close(from);
      return true;
    });
  }

  std::unordered_map<caf::io::connection_handle, caf::actor_clock::time_point> greeting_due_;
};

/// CAF's scribe, except that a peer which announces too much to be kept loses its connection. CAF
/// itself makes room for all of it at once, up to 4 GiB.
class scribe final : public network::scribe_impl {
public:
  using scribe_impl::scribe_impl;

  void configure_read(caf::io::receive_policy::config config) override {
    constexpr int reads_of_greeting = 2; // The header, then the rest.
    const auto most = reads_++ < reads_of_greeting ? greeting_bytes_max : piece_bytes_max;
    if (config.second > most) {
      ::shutdown(stream_.fd(), SHUT_RDWR);
      config.second = 1; // The next read finds the end.
    }
    scribe_impl::configure_read(config);
  }

private:
  int reads_ = 0;
};

/// Accepts connections. Without a free descriptor it uses its reserve to accept a connection and
/// close it: the caller learns of it, and the listening socket does not stay readable.
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

/// CAF's own doorman, except that it accepts connections by `accepting`.
class doorman final : public caf::io::doorman {
public:
  doorman(network::default_multiplexer& loop, network::native_socket listener)
      : caf::io::doorman(network::accept_hdl_from_socket(listener)), acceptor_(loop, listener) {}

  bool new_connection() override {
    if (detached())
      return false; // The broker has ended, and the socket is still in the event loop.
    auto& loop = acceptor_.backend();
    if (parent()->num_connections() >= connections_max) {
      if (lines_.allows("", std::chrono::steady_clock::now()))
        log::warn("actors: {} connections are open, further ones are turned away", connections_max);
      ::close(acceptor_.accepted_socket());
      return true;
    }
    auto scribe = loop.new_scribe(acceptor_.accepted_socket());
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    if (auto* basp = dynamic_cast<forgetful_broker*>(parent()))
      basp->expect_greeting(handle);
    return caf::io::doorman::new_connection(&loop, handle);
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
    const auto known = network::local_port_of_fd(acceptor_.fd());
    return known ? *known : std::uint16_t{0};
  }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

private:
  network::acceptor_impl<accepting> acceptor_;
  log_limit lines_;
};

class multiplexer final : public network::default_multiplexer {
public:
  using default_multiplexer::default_multiplexer;

  caf::io::doorman_ptr new_doorman(network::native_socket listener) override {
    return caf::make_counted<doorman>(*this, listener);
  }
  caf::io::scribe_ptr new_scribe(network::native_socket connected) override {
    network::keepalive(connected, true);
    return caf::make_counted<scribe>(*this, connected);
  }
};

class middleman final : public caf::io::middleman {
public:
  explicit middleman(caf::actor_system& system) : caf::io::middleman(system), loop_(&system) {}

  network::multiplexer& backend() override { return loop_; }
  void start() override {
    // CAF uses the first broker that takes this name.
    named_broker<forgetful_broker>(caf::atom("BASP"));
    caf::io::middleman::start();
    // A broker that is stopped before it has begun is never freed, so a system that ends at once
    // waits for what the loop was given first.
    std::promise<void> begun;
    loop_.post([&begun] { begun.set_value(); });
    begun.get_future().wait();
  }

private:
  multiplexer loop_;
};

} // namespace

caf::actor_system::module* make_node_middleman(caf::actor_system& system) {
  return new middleman(system);
}

} // namespace peercache::link
