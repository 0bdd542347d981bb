#include "client/cache_client.hpp"

#include "client/clear_call.hpp"
#include "client/client_impl.hpp"
#include "client/connect_fault.hpp"
#include "link/ending_system.hpp"
#include "link/protocol/pool_wire.hpp"
#include "link/thread_actor.hpp"
#include "net/socket.hpp"

#include <algorithm>
#include <array>

namespace peercache::client {

using std::chrono::steady_clock;

reader_place place_of(cache_client::impl& client, const own_pool_ptr& own) {
  reader_place place;
  if (own) {
    place.own = own->node.inc;
    place.own_node = own->node.id;
  }
  place.outstanding = [&client](const incarnation& peer) { return client.load.outstanding(peer); };
  place.is_away = [cluster = client.session.board().topology()](const auto& at) {
    const auto* peer = cluster->find(at.node, at.holder);
    return peer != nullptr && peer->tried && !peer->linked();
  };
  return place;
}

namespace {

/// How long a `connect` that has failed waits for the end of its client, which takes some
/// milliseconds.
constexpr std::chrono::milliseconds end_grace(20);

error closed_fault() {
  return {errc::closed, "the client is closed, as each is in a forked child"};
}

std::vector<caf::actor> spawn_read_threads(caf::actor_system& system, read_plane& plane) {
  std::vector<caf::actor> threads;
  for (std::size_t lane = 0; lane < plane.lanes().size(); ++lane)
    threads.push_back(
        link::spawn_thread_actor(system, "peercache-reads", [&plane, lane] { plane.run(lane); }));
  return threads;
}

} // namespace

cache_client::impl::impl(const client_options& opts, std::unique_ptr<read_plane> plane,
                         const std::shared_ptr<net::tls_context>& tls)
    : options(opts), locations(opts.location_cache_keys), channels(opts.cluster, tls),
      hold_channels(opts.cluster, tls, link::member_question_magic), reads(std::move(plane)),
      shards(reads->lanes(), remote_shards::landing_for(*reads), opts.cluster, totals),
      session(
          opts, tls, closing, calls,
          [this] {
            auto now = totals.samples();
            now.set(metrics::metric::breakers_open, health.open());
            now.set(metrics::metric::gpu_untold_total, session.board().gpu.left_out());
            reads->add_to(now);
            return now;
          },
          [this](const page_key& key, const directory::page_location& location) {
            remember(key, location, session.board().pool());
          }),
      read_threads_(spawn_read_threads(session.system(), *reads)) {
  calls.watch().set_data_plane(reads->choice());
}

cache_client::impl::~impl() {
  reads->stop();
  for (auto& thread : read_threads_)
    link::wait_for_thread_actor(session.system(), thread);
}

void cache_client::impl::close() {
  closing.give();
  session.board().close();
  reads->stop();
}

void cache_client::impl::settle_closed(std::span<page_result> results) const noexcept {
  if (!closing.given())
    return;
  using enum page_status;
  constexpr std::array open{pending,     stale,        holder_gone, timed_out,
                            unreachable, breaker_open, refused};
  for (auto& result : results)
    if (std::ranges::find(open, result.status) != open.end())
      result.status = closed;
}

deadline cache_client::impl::deadline_of(std::optional<deadline> until) const {
  return until ? *until : steady_clock::now() + options.timeout;
}

directory_lookup cache_client::impl::lookup() {
  return {session, channels,
          shards,  health,
          totals,  [this](std::span<const page_key> keys) { locations.prefetch_for_stores(keys); }};
}

void cache_client::impl::remember(const page_key& key, const directory::page_location& location,
                                  const own_pool_ptr& own) noexcept {
  const bool here = own && location.holder == own->node.inc;
  if (!here || location.where != directory::tier::memory)
    locations.store(key, location);
}

longest_wait cache_client::impl::look_up(std::span<const page_key> keys,
                                         std::span<lookup_answer> answers, deadline until,
                                         const directory_lookup::while_asking& during) {
  auto asked = lookup();
  asked.run(keys, answers, until, during);
  return asked.slowest();
}

bool cache_client::impl::verify(verify_mode mode) noexcept {
  if (mode != verify_mode::sample)
    return mode == verify_mode::always;
  return sampled_.fetch_add(1, std::memory_order_relaxed) % std::max(1u, options.verify_sample) ==
         0;
}

cache_client::cache_client(std::unique_ptr<impl> body) : impl_(std::move(body)) {}

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
  auto body = std::make_unique<impl>(options, std::move(*plane), *tls);
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
