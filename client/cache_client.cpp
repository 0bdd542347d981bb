#include "client/cache_client.hpp"

#include "client/calls/clear_call.hpp"
#include "client/calls/client_impl.hpp"
#include "client/session/connect_fault.hpp"
#include "link/ending_system.hpp"
#include "link/protocol/pool_wire.hpp"
#include "net/socket.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

namespace peercache::client {

using std::chrono::steady_clock;

namespace {

/// How long a `connect` that has failed waits for the end of its client, which takes some
/// milliseconds.
constexpr std::chrono::milliseconds end_grace(20);

error closed_fault() {
  return {errc::closed, "the client is closed, as each is in a forked child"};
}

} // namespace

cache_client::cache_client(std::unique_ptr<client_impl> body) : impl_(std::move(body)) {}

cache_client::~cache_client() {
  if (!impl_->home.is_here())
    // In a forked child the threads, and all that their end would give back, are the parent's.
    (void)impl_.release();
}

bool cache_client::is_open() const noexcept {
  return impl_->home.is_here() && !impl_->closing.given();
}

void cache_client::close() {
  if (impl_->home.is_here())
    impl_->close();
}

namespace {

/// Says why a session is not ready.
error ready_fault(const session_board& board, const std::string& host, std::uint16_t port,
                  const error& why) {
  const auto pool = board.pool();
  const auto cluster = board.topology();
  const auto* own = pool ? cluster->find(pool->node.inc) : nullptr;
  if (own != nullptr && own->tried && !own->linked())
    return lookup_port_fault(host, port, own->self, why);
  return connect_fault(host, port, why);
}

} // namespace

result<std::unique_ptr<cache_client>> cache_client::connect(const client_options& wanted) {
  auto until = steady_clock::now() + wanted.timeout;
  auto options = wanted;
  auto address = net::resolve_host(wanted.node_host);
  if (!address && wanted.wait_for_node)
    return connect_fault(wanted.node_host, wanted.node_port,
                         {errc::unreachable, address.error().message});
  if (address) // A name that is not resolved here is tried again by each dial.
    options.node_host = std::move(*address);
  auto tls = net::tls_context::open_if_given(options.tls, options.cluster);
  if (!tls)
    return tls.error();
  auto plane = read_plane::create(options, nullptr, *tls);
  if (!plane)
    return plane.error();
  auto body = std::make_unique<client_impl>(options, std::move(*plane), *tls);
  link::leave_actor_system();
  if (options.wait_for_node)
    if (auto ready = body->session.board().wait_ready(until); !ready) {
      auto fault =
          ready_fault(body->session.board(), wanted.node_host, options.node_port, ready.error());
      link::end_in_thread(
          std::packaged_task<void()>([body = std::move(body)]() mutable { body.reset(); }),
          end_grace);
      return fault;
    }
  return std::unique_ptr<cache_client>{new cache_client{std::move(body)}};
}

result<void> cache_client::register_buffer(std::span<std::byte> memory) {
  if (!is_open())
    return closed_fault();
  return impl_->reads->register_buffer(memory);
}

void cache_client::unregister_buffer(const std::byte* begin) {
  if (is_open())
    impl_->reads->unregister_buffer(begin);
}

const std::string& cache_client::data_plane() const noexcept {
  return impl_->reads->choice();
}

result<flush_result> cache_client::flush(std::optional<deadline> until) {
  if (!is_open())
    return closed_fault();
  auto outcome = impl_->session.board().window.wait_empty(impl_->deadline_of(until));
  if (!outcome && !is_open())
    return closed_fault();
  if (!outcome)
    return {errc::timed_out, "pages that were set are not acknowledged yet"};
  return *outcome;
}

std::vector<std::string> cache_client::nodes_gone() const {
  if (!impl_->home.is_here())
    return {};
  const auto& board = impl_->session.board();
  return board.nodes_gone(*board.topology());
}

void cache_client::prefetch(std::span<const page_key> keys) {
  if (!is_open())
    return;
  // Locations of the pages go into the location cache; pages on a disk go into their node's pool.
  const auto limit = impl_->deadline_of({});
  for (std::size_t done = 0; done < keys.size() && steady_clock::now() < limit;
       done += limits::batch_pages_max) {
    const auto start = impl_->session.board().start_call();
    const dated_pages now{
        start.epochs,
        keys.subspan(done, std::min<std::size_t>(limits::batch_pages_max, keys.size() - done))};
    if (!now.known())
      return;
    auto& allowance = impl_->session.board().prefetches;
    if (!allowance.take(static_cast<std::uint32_t>(now.pages().size())))
      return;
    std::string batch;
    for (const auto& key : now.pages())
      link::append_record(batch, key);
    caf::anon_send(impl_->session.actor(), link::lookup_atom_v, std::move(batch),
                   link::from_here{});
  }
}

result<std::vector<std::vector<directory::page_location>>>
cache_client::locate(std::span<const page_key> keys, std::optional<deadline> until) {
  auto each = locate_each(keys, until);
  if (!each)
    return each.error();
  std::vector<std::vector<directory::page_location>> found;
  found.reserve(each->size());
  for (auto& key : *each) {
    if (key.status != page_status::hit && key.status != page_status::not_found)
      return {errc::unreachable,
              "no directory owner of a key answered: " + std::string{to_string(key.status)}};
    found.push_back(std::move(key.locations));
  }
  return found;
}

result<std::vector<key_locations>> cache_client::locate_each(std::span<const page_key> keys,
                                                             std::optional<deadline> until) {
  if (!is_open())
    return closed_fault();
  const auto limit = impl_->deadline_of(until);
  auto lookup = impl_->lookup();
  std::vector<lookup_answer> answers;
  std::vector<key_locations> found;
  found.reserve(keys.size());
  for (std::size_t done = 0; done < keys.size(); done += limits::batch_pages_max) {
    const auto piece =
        keys.subspan(done, std::min<std::size_t>(limits::batch_pages_max, keys.size() - done));
    const auto start = impl_->session.board().start_call();
    const dated_pages now{start.epochs, piece};
    if (!now.known())
      return {errc::unreachable, "the node of this host has died in the middle of a clear"};
    answers.resize(piece.size());
    lookup.run(now.pages(), answers, limit);
    if (!is_open())
      return closed_fault();
    for (const auto& answer : answers)
      found.push_back(
          {answer.status, {answer.locations.begin(), answer.locations.begin() + answer.count}});
  }
  return found;
}

clear_result cache_client::clear(std::string_view space, std::optional<deadline> until) {
  if (!is_open())
    return {false, closed_fault().message};
  auto outcome = clear_space(impl_->session, space, impl_->deadline_of(until));
  if (!outcome && !is_open())
    outcome.why_not = closed_fault().message;
  return outcome;
}

discovery::view cache_client::view() const {
  return impl_->home.is_here() ? impl_->session.board().topology()->view : discovery::view{};
}

std::optional<incarnation> cache_client::home_node() const {
  const auto own = is_open() ? impl_->session.board().pool() : nullptr;
  return own ? std::optional{own->node.inc} : std::nullopt;
}

call_log& cache_client::calls() noexcept {
  return impl_->calls;
}

client_stats cache_client::stats() const {
  return impl_->totals.stats();
}

int ending_systems() noexcept {
  return link::ending_systems();
}

} // namespace peercache::client
