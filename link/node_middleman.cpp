#include "link/node_middleman.hpp"

#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>

#include <cerrno>
#include <fcntl.h>
#include <future>
#include <sys/socket.h>
#include <unistd.h>

namespace peercache::link {

namespace {

namespace network = caf::io::network;

/// CAF's BASP broker, except that it forgets peers that are gone.
class forgetful_broker final : public caf::io::basp_broker {
public:
  using basp_broker::basp_broker;

  void purge_state(const caf::node_id& gone) override {
    basp_broker::purge_state(gone);
    const auto helper = spawn_servers.find(gone);
    if (helper == spawn_servers.end())
      return;
    // The helper actor may still wait for an answer of the peer that is gone, so it is killed.
    caf::anon_send_exit(helper->second, caf::exit_reason::kill);
    spawn_servers.erase(helper);
  }
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
    give_reserve();
    if (const int unwanted = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC); unwanted >= 0)
      ::close(unwanted);
    take_reserve();
  }
  void take_reserve() { reserve_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
  void give_reserve() {
    if (reserve_ >= 0)
      ::close(reserve_);
    reserve_ = -1;
  }

  int reserve_ = -1;
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
    auto scribe = loop.new_scribe(acceptor_.accepted_socket());
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
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
};

class multiplexer final : public network::default_multiplexer {
public:
  using default_multiplexer::default_multiplexer;

  caf::io::doorman_ptr new_doorman(network::native_socket listener) override {
    return caf::make_counted<doorman>(*this, listener);
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
