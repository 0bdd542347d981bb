#include "client/admin_client.hpp"

#include "client/session/connect_fault.hpp"
#include "common/key_epoch.hpp"
#include "discovery/view_codec.hpp"
#include "link/command_caller.hpp"
#include "link/connector_actor.hpp"
#include "link/ending_system.hpp"
#include "link/protocol/message_types.hpp"
#include "link/protocol/pool_wire.hpp"
#include "link/system_config.hpp"
#include "net/host_socket.hpp"
#include "net/socket.hpp"
#include "net/tls_context.hpp"

namespace peercache::client {

using namespace peercache::link;

class admin_client::impl {
  /// Keeps CAF from closing connections for their silence, because requests have time-outs of their
  /// own. CAF counts the silence of a connection whose greeting has not come yet from its clock's
  /// zero, so it would close such a connection at its next look, within a second.
  static std::unique_ptr<system_config> patient(std::unique_ptr<system_config> config) {
    config->set("middleman.connection-timeout", caf::timespan{std::chrono::hours(24 * 365)});
    return config;
  }

  std::unique_ptr<system_config> config_;

public:
  explicit impl(std::shared_ptr<net::tls_context> tls)
      : config_(patient(std::make_unique<system_config>(1, std::move(tls)))),
        system(std::make_unique<caf::actor_system>(*config_)) {
    leave_actor_system();
  }
  ~impl() {
    gateway = nullptr;
    end_system(std::move(config_), std::move(system));
  }

  /// Asks the gateway and waits for its answer.
  template <class Answer, class... Args>
  result<Answer> ask(Args... args) {
    const attached_thread leaves_at_end;
    caf::scoped_actor self{*system};
    result<Answer> answer{errc::timed_out, ""};
    self->request(gateway, timeout, args...)
        .receive([&](Answer& value) { answer = std::move(value); },
                 [&](const caf::error& why) {
                   auto fault = fault_of(why);
                   answer = error{fault.code, "the node does not say: " + fault.message};
                 });
    return answer;
  }

  /// Detaches the calling thread from the actor system at the end of its scope: another thread may
  /// end the system, and would wait for an attached thread.
  struct attached_thread {
    ~attached_thread() { leave_actor_system(); }
  };

  std::unique_ptr<caf::actor_system> system;
  std::chrono::milliseconds timeout{};
  gateway_actor gateway;
};

admin_client::admin_client(std::unique_ptr<impl> body) : impl_(std::move(body)) {}
admin_client::~admin_client() = default;

result<std::unique_ptr<admin_client>>
admin_client::connect(const std::string& host, std::uint16_t port, const std::string& cluster,
                      std::chrono::milliseconds timeout, const tls_paths& tls) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + timeout;
  auto address = net::resolve_host(host);
  if (!address)
    return connect_fault(host, port, {errc::unreachable, address.error().message});
  auto context = net::tls_context::open_if_given(tls, cluster);
  if (!context)
    return context.error();
  auto body = std::make_unique<impl>(std::move(*context));
  body->timeout = timeout;
  const impl::attached_thread leaves_at_end;
  auto& system = *body->system;
  auto connector = system.spawn(run_connector, timeout, net::host_sockets{});
  result<void> outcome;
  auto failed = [&](const caf::error& why) { outcome = connect_fault(host, port, fault_of(why)); };
  caf::scoped_actor self{system};
  // The connector's own words, which say what did not answer, come before this request's time-out.
  self->request(connector, timeout + milliseconds(50), dial_atom_v, *address, port, std::string(),
                from_here{})
      .receive([&](gateway_actor& found) { body->gateway = std::move(found); }, failed);
  const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now());
  if (outcome)
    self->request(body->gateway, std::max(left, milliseconds(1)), hello_atom_v, wire_version,
                  cluster, std::string{command_caller})
        .receive([](const peer_welcome&) {}, failed);
  self->send_exit(connector, caf::exit_reason::user_shutdown);
  if (!outcome)
    return outcome.error();
  return std::unique_ptr<admin_client>{new admin_client{std::move(body)}};
}

result<node_status> admin_client::status() {
  auto report = impl_->ask<node_report>(status_atom_v);
  if (!report)
    return report.error();
  return status_of(std::move(*report));
}

result<link::history_report> admin_client::history() {
  return impl_->ask<history_report>(history_atom_v, std::uint64_t{0}, std::uint64_t{0});
}

result<link::sessions_report> admin_client::sessions() {
  return impl_->ask<sessions_report>(list_atom_v);
}

result<link::calls_report> admin_client::calls() {
  return impl_->ask<calls_report>(calls_atom_v);
}

result<link::page_census> admin_client::census() {
  return impl_->ask<page_census>(census_atom_v);
}

result<link::lost_report> admin_client::lost_pages(std::span<const page_key> keys) {
  std::string prefixes;
  for (const auto& key : keys)
    append_record(prefixes, key.prefix());
  return impl_->ask<lost_report>(lost_atom_v, prefixes);
}

result<std::string> admin_client::log_level(const std::string& level) {
  return impl_->ask<std::string>(log_atom_v, level);
}

result<discovery::view> admin_client::view() {
  auto encoded = impl_->ask<std::string>(view_atom_v);
  if (!encoded)
    return encoded.error();
  if (encoded->empty()) // An empty view: the node has never been in a cluster.
    return discovery::view{};
  return discovery::decode_view(*encoded);
}

namespace {

result<void> begun(const result<bool>& answer) {
  if (!answer)
    return answer.error();
  if (!*answer)
    return {errc::not_found, "the node has no disk tier; its log says why, and so does "
                             "`peercache disk status`"};
  return {};
}

} // namespace

result<void> admin_client::verify_disk() {
  return begun(impl_->ask<bool>(verify_atom_v));
}

result<void> admin_client::evict_disk(std::uint64_t bytes) {
  return begun(impl_->ask<bool>(evict_atom_v, bytes));
}

result<link::drain_report> admin_client::set_drained(bool drained,
                                                     std::chrono::milliseconds within) {
  auto usual = std::exchange(impl_->timeout, std::max(within, impl_->timeout));
  auto came_to = impl_->ask<drain_report>(drain_atom_v, drained);
  impl_->timeout = usual;
  return came_to;
}

result<void> admin_client::forget(const std::string& name) {
  auto known = impl_->ask<bool>(forget_atom_v, name);
  if (!known)
    return known.error();
  if (!*known)
    return {errc::not_found, "the node does not lead, or knows of nobody called '" + name +
                                 "' who is gone; ask again"};
  return {};
}

result<link::clear_report> admin_client::clear(std::string_view space,
                                               const std::vector<std::string>& gone,
                                               std::chrono::milliseconds within) {
  std::string names;
  for (const auto& name : gone)
    names += name + "\n";
  // This request's time-out: the time that the node is given, and the usual time for the way there
  // and back.
  auto usual = std::exchange(impl_->timeout, within + impl_->timeout);
  auto report = impl_->ask<clear_report>(clear_atom_v, space_named(space).value,
                                         static_cast<std::uint32_t>(within.count()), names);
  impl_->timeout = usual;
  return report;
}

result<void> admin_client::drain() {
  auto done = impl_->ask<bool>(drain_atom_v);
  if (!done)
    return done.error();
  return {};
}

} // namespace peercache::client
