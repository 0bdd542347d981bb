#include "client/calls/client_impl.hpp"

#include "link/member_question.hpp"
#include "link/thread_actor.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

namespace peercache::client {

using std::chrono::steady_clock;

namespace {

void end_read_threads(caf::actor_system& system, read_plane& plane,
                      const std::vector<caf::actor>& threads) {
  plane.stop();
  for (const auto& thread : threads)
    link::wait_for_thread_actor(system, thread);
}

/// Starts a thread for each lane, or none: where one cannot be started, the others end before the
/// exception leaves, since they use the plane.
std::vector<caf::actor> spawn_read_threads(caf::actor_system& system, read_plane& plane) {
  std::vector<caf::actor> threads;
  try {
    for (std::size_t lane = 0; lane < plane.lanes().size(); ++lane)
      threads.push_back(
          link::spawn_thread_actor(system, "peercache-reads", [&plane, lane] { plane.run(lane); }));
  } catch (...) {
    end_read_threads(system, plane, threads);
    throw;
  }
  return threads;
}

} // namespace

reader_place place_of(client_impl& client, const own_pool_ptr& own) {
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

client_impl::client_impl(const client_options& opts, std::unique_ptr<read_plane> plane,
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

client_impl::~client_impl() {
  end_read_threads(session.system(), *reads, read_threads_);
}

void client_impl::close() {
  closing.give();
  session.board().close();
  reads->stop();
}

void client_impl::settle_closed(std::span<page_result> results) const noexcept {
  if (!closing.given())
    return;
  using enum page_status;
  constexpr std::array open{pending,     stale,        holder_gone, timed_out,
                            unreachable, breaker_open, refused};
  for (auto& result : results)
    if (std::ranges::find(open, result.status) != open.end())
      result.status = closed;
}

deadline client_impl::deadline_of(std::optional<deadline> until) const {
  return until ? *until : steady_clock::now() + options.timeout;
}

directory_lookup client_impl::lookup() {
  return {session, channels,
          shards,  health,
          totals,  [this](std::span<const page_key> keys) { locations.prefetch_for_stores(keys); }};
}

void client_impl::remember(const page_key& key, const directory::page_location& location,
                           const own_pool_ptr& own) noexcept {
  const bool here = own && location.holder == own->node.inc;
  if (!here || location.where != directory::tier::memory)
    locations.store(key, location);
}

longest_wait client_impl::look_up(std::span<const page_key> keys, std::span<lookup_answer> answers,
                                  deadline until, const directory_lookup::while_asking& during) {
  auto asked = lookup();
  asked.run(keys, answers, until, during);
  return asked.slowest();
}

void client_impl::queue_commit(pending_commit job, set_window::stay& stay) {
  auto& commits = session.board().commits;
  const bool wakes = commits.push(std::move(job));
  stay.pass_on();
  if (!wakes)
    return;
  try {
    caf::anon_send(session.actor(), link::commit_atom_v, link::from_here{});
  } catch (...) { // There is no memory for the message.
    commits.not_woken();
    throw;
  }
}

void client_impl::note_call(link::call_kind kind, const page_key& first,
                            std::span<const page_result> results, call_watch::duration took,
                            const longest_wait& wait) {
  auto& watch = calls.watch();
  watch.count(kind, first, results.size());
  if (!watch.is_slow(took))
    return;
  call_watch::call slow{kind, first, results.size(), 0, took, wait};
  slow.failed = static_cast<std::size_t>(std::ranges::count_if(
      results, [](const page_result& page) { return !is_success(page.status); }));
  watch.keep(std::move(slow), steady_clock::now());
}

bool client_impl::verify(verify_mode mode) noexcept {
  if (mode != verify_mode::sample)
    return mode == verify_mode::always;
  return sampled_.fetch_add(1, std::memory_order_relaxed) % std::max(1u, options.verify_sample) ==
         0;
}

} // namespace peercache::client
