#include "client/cache_client.hpp"

#include "actors/protocol/pool_wire.hpp"
#include "actors/thread_actor.hpp"
#include "client/client_impl.hpp"
#include "client/connect_fault.hpp"
#include "client/get_call.hpp"
#include "client/remove_call.hpp"
#include "client/set_call.hpp"
#include "rdma/socket.hpp"

#include <algorithm>

namespace peercache::client {

using std::chrono::steady_clock;

reader_place place_of(cache_client::impl& client, const own_pool_ptr& own) {
  reader_place place;
  if (own) {
    place.own = own->node.inc;
    place.own_node = own->node.id;
  }
  place.outstanding = [&client](const incarnation& peer) { return client.load.outstanding(peer); };
  place.is_away = [cluster = client.session.board().topology()](const incarnation& holder) {
    const auto* peer = cluster->find(holder);
    return peer != nullptr && peer->tried && !peer->linked();
  };
  return place;
}

namespace {

/// A caller that brings fewer results than pages gets no page: never a write beyond what it lent.
template <class Page>
bool sizes_agree(std::span<const Page> pages, std::span<page_result> results) {
  if (pages.size() == results.size())
    return true;
  std::fill(results.begin(), results.end(),
            page_result{page_status::bad_size, page_origin::none, 0});
  return false;
}

std::vector<caf::actor> spawn_read_threads(caf::actor_system& system, read_plane& plane) {
  std::vector<caf::actor> threads;
  for (std::size_t lane = 0; lane < plane.lanes().size(); ++lane)
    threads.push_back(actors::spawn_thread_actor(system, [&plane, lane] { plane.run(lane); }));
  return threads;
}

} // namespace

cache_client::impl::impl(const client_options& opts, std::unique_ptr<read_plane> plane)
    : options(opts), locations(opts.location_cache_keys), channels(opts.cluster),
      reads(std::move(plane)),
      session(
          opts,
          [this] {
            auto report = totals.report(health.open());
            reads->report(report);
            return report;
          },
          [this](const page_key& key, const directory::page_location& location) {
            locations.store(key, location);
          }),
      read_threads_(spawn_read_threads(session.system(), *reads)) {}

cache_client::impl::~impl() {
  reads->stop();
  for (auto& thread : read_threads_)
    actors::wait_for_thread_actor(session.system(), thread);
}

deadline cache_client::impl::deadline_of(std::optional<deadline> until) const {
  return until ? *until : steady_clock::now() + options.timeout;
}

void cache_client::impl::look_up(std::span<const page_key> keys, std::span<lookup_answer> answers,
                                 deadline until) {
  directory_lookup{session, channels, health, totals}.run(keys, answers, until);
}

bool cache_client::impl::verify(verify_mode mode) noexcept {
  if (mode != verify_mode::sample)
    return mode == verify_mode::always;
  return sampled_.fetch_add(1, std::memory_order_relaxed) % std::max(1u, options.verify_sample) ==
         0;
}

cache_client::cache_client(std::unique_ptr<impl> body) : impl_(std::move(body)) {}
cache_client::~cache_client() = default;

result<std::unique_ptr<cache_client>> cache_client::connect(const client_options& wanted) {
  auto until = steady_clock::now() + wanted.timeout;
  auto options = wanted;
  auto address = rdma::resolve_host(wanted.node_host);
  if (!address && wanted.wait_for_node)
    return connect_fault(wanted.node_host, wanted.node_port,
                         {errc::unreachable, address.error().message});
  if (address) // Otherwise each dial tries it again.
    options.node_host = std::move(*address);
  auto plane = read_plane::create(options);
  if (!plane)
    return plane.error();
  auto body = std::make_unique<impl>(options, std::move(*plane));
  actors::leave_actor_system();
  if (options.wait_for_node)
    if (auto ready = body->session.board().wait_ready(until); !ready)
      return connect_fault(wanted.node_host, options.node_port, ready.error());
  return std::unique_ptr<cache_client>{new cache_client{std::move(body)}};
}

result<void> cache_client::register_buffer(std::span<std::byte> memory) {
  return impl_->reads->register_buffer(memory);
}

void cache_client::unregister_buffer(const std::byte* begin) {
  impl_->reads->unregister_buffer(begin);
}

const std::string& cache_client::data_plane() const noexcept {
  return impl_->reads->choice();
}

void cache_client::set(std::span<const set_page> pages, std::span<page_result> results,
                       std::optional<deadline> until) {
  if (!sizes_agree(pages, results))
    return;
  auto started = steady_clock::now();
  auto limit = impl_->deadline_of(until);
  for (std::size_t done = 0; done < pages.size(); done += limits::batch_pages_max) {
    auto count = std::min<std::size_t>(limits::batch_pages_max, pages.size() - done);
    set_call{*impl_, pages.subspan(done, count), results.subspan(done, count), limit}.run();
  }
  for (const auto& result : results)
    impl_->totals.set_status[static_cast<std::size_t>(result.status)].fetch_add(
        1, std::memory_order_relaxed);
  impl_->totals.set_latency.record(steady_clock::now() - started);
}

result<flush_result> cache_client::flush(std::optional<deadline> until) {
  auto outcome = impl_->session.board().window.wait_empty(impl_->deadline_of(until));
  if (!outcome)
    return {errc::timed_out, "pages that were set are not acknowledged yet"};
  return *outcome;
}

void cache_client::get(std::span<const get_page> pages, std::span<page_result> results,
                       std::optional<deadline> until) {
  if (!sizes_agree(pages, results))
    return;
  auto started = steady_clock::now();
  auto limit = impl_->deadline_of(until);
  for (std::size_t done = 0; done < pages.size(); done += limits::batch_pages_max) {
    auto count = std::min<std::size_t>(limits::batch_pages_max, pages.size() - done);
    get_call{*impl_, pages.subspan(done, count), results.subspan(done, count), limit}.run();
  }
  for (const auto& result : results)
    impl_->totals.count_get(result);
  impl_->totals.get_latency.record(steady_clock::now() - started);
}

void cache_client::exists(std::span<const page_key> keys, std::span<page_result> results,
                          std::optional<deadline> until) {
  if (!sizes_agree(keys, results))
    return;
  auto started = steady_clock::now();
  auto own = impl_->session.board().pool();
  const auto place = place_of(*impl_, own);
  cold_pages cold;
  std::vector<lookup_answer> answers(keys.size());
  impl_->look_up(keys, answers, impl_->deadline_of(until));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    results[i] = {};
    results[i].status = answers[i].status;
    if (answers[i].status == page_status::not_found)
      impl_->locations.erase(keys[i]);
    if (answers[i].status == page_status::hit) {
      const auto& best = choose_location(answers[i], place);
      bool here = own && best.owner == own->node.inc;
      results[i].origin = here ? page_origin::own_host : page_origin::other_host;
      if (best.where == directory::tier::disk) {
        results[i].origin = page_origin::disk;
        cold.add(static_cast<std::uint32_t>(i), keys[i], best);
      }
      results[i].length_bytes = best.length_bytes;
      impl_->locations.store(keys[i], best);
    }
    impl_->totals.exists_status[static_cast<std::size_t>(results[i].status)].fetch_add(
        1, std::memory_order_relaxed);
  }
  if (!cold.empty())
    cold.warm(*impl_->session.board().topology());
  impl_->totals.exists_latency.record(steady_clock::now() - started);
}

void cache_client::remove(std::span<const page_key> keys, std::span<page_result> results,
                          std::optional<deadline> until, remove_scope scope) {
  if (!sizes_agree(keys, results))
    return;
  remove_call call{*impl_, keys, results, impl_->deadline_of(until)};
  if (scope == remove_scope::every_node)
    call.run_everywhere();
  else
    call.run();
}

std::vector<std::string> cache_client::nodes_gone() const {
  const auto& board = impl_->session.board();
  return board.nodes_gone(*board.topology());
}

void cache_client::prefetch(std::span<const page_key> keys) {
  // Into the location cache, and from a disk into its node's pool.
  for (std::size_t done = 0; done < keys.size(); done += limits::batch_pages_max) {
    std::string batch;
    for (const auto& key :
         keys.subspan(done, std::min<std::size_t>(limits::batch_pages_max, keys.size() - done)))
      actors::append_record(batch, key);
    caf::anon_send(impl_->session.committer(), actors::lookup_atom_v, std::move(batch));
  }
}

result<std::vector<std::vector<directory::page_location>>>
cache_client::locate(std::span<const page_key> keys, std::optional<deadline> until) {
  std::vector<lookup_answer> answers(keys.size());
  impl_->look_up(keys, answers, impl_->deadline_of(until));
  std::vector<std::vector<directory::page_location>> found;
  for (const auto& answer : answers) {
    if (answer.status != page_status::hit && answer.status != page_status::not_found)
      return {errc::unreachable,
              "no directory owner of a key answered: " + std::string{to_string(answer.status)}};
    found.emplace_back(answer.locations.begin(), answer.locations.begin() + answer.count);
  }
  return found;
}

discovery::view cache_client::view() const {
  return impl_->session.board().topology()->view;
}

client_stats cache_client::stats() const {
  return impl_->totals.stats();
}

} // namespace peercache::client
