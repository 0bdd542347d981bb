#include "actors/pool_publishing.hpp"

#include "actors/owner_batches.hpp"
#include "actors/pool_repair.hpp"
#include "common/guards.hpp"
#include "common/log.hpp"
#include "directory/shard.hpp"
#include "discovery/placement.hpp"

#include <algorithm>
#include <functional>

namespace peercache::actors {

publication_ptr publish(pool_pointer self, std::vector<owner_batch> batches, std::size_t pages,
                        std::function<void(publication&)> done,
                        std::function<void(publication&)> decided) {
  auto job = std::make_shared<publication>(pages);
  job->decided = std::move(decided);
  job->done = std::move(done);
  job->waiting = batches.size() + 1; // One is ours: `done` must not run before all are sent.
  for (const auto& batch : batches)
    job->will_ask(batch.indices);
  for (auto& batch : batches) {
    const auto* owner = self->state.cluster->find(batch.owner);
    if (owner == nullptr || !owner->linked()) {
      job->failed(batch.indices);
      continue;
    }
    auto indices = std::make_shared<std::vector<std::uint32_t>>(std::move(batch.indices));
    const auto& view = self->state.cluster->view;
    self->request(owner->directory, self->state.options.directory_timeout, publish_atom_v,
                  std::move(batch.records), view.term, view.version)
        .then([job, indices](const std::string& outcomes) { job->answered(*indices, outcomes); },
              [job, indices](const caf::error&) { job->failed(*indices); });
  }
  job->finish_one();
  return job;
}

std::vector<storage::fill> fills_of(const std::string& filled) {
  auto count = record_count<filled_slot>(filled).value_or(0);
  std::vector<storage::fill> fills(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto page = record_at<filled_slot>(filled, i);
    fills[i] = {page.slot, page.key, page.length_bytes, page.checksum};
  }
  return fills;
}

namespace {

using directory::publish_mode;

/// One put on its way.
struct commit_job {
  std::vector<storage::fill> fills;
  std::vector<storage::commit_outcome> outcomes;
  commit_mode mode = commit_mode::store;
  bool settled = false;
};

/// Takes into the pool what it may take. Of mirrored pages no more than their share; the slots of
/// the rest come back.
void take_in(pool_state& state, commit_job& job) {
  if (job.mode != commit_mode::mirror) {
    state.pool->commit(job.fills, job.outcomes);
    std::vector<storage::evicted> replaced;
    for (const auto& outcome : job.outcomes)
      if (outcome.replaced)
        replaced.push_back(*outcome.replaced);
    return state.withdraw(replaced);
  }
  std::vector<storage::fill> taken;
  std::vector<std::size_t> places;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < job.fills.size(); ++i) {
    const auto& fill = job.fills[i];
    if (state.mirrors.has_room(bytes + fill.length_bytes)) {
      bytes += fill.length_bytes;
      taken.push_back(fill);
      places.push_back(i);
    } else {
      state.pool->abandon(fill.slot);
      job.outcomes[i].status = page_status::no_space;
      ++state.mirrored_refused;
    }
  }
  std::vector<storage::commit_outcome> outcomes(taken.size());
  // On probation as promoted pages are: a scan of other hosts' pages flushes no pool.
  state.pool->commit(taken, outcomes, /*promoted=*/true);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    job.outcomes[places[i]] = outcomes[i];
    if (outcomes[i].status != page_status::stored)
      continue;
    state.mirrors.add(outcomes[i].slot, taken[i].length_bytes);
    ++state.mirrored;
  }
}

/// Nobody would find this copy: other hosts have enough of them, or keys have as many locations as
/// they may have.
bool is_useless(const commit_job& job, const publication& published, std::size_t i) {
  const bool unwanted_mirror =
      job.mode == commit_mode::mirror && !published.recorded[i] && !published.may_be_recorded(i);
  return published.is_useless(i) || unwanted_mirror;
}

/// Unless it has been put again meanwhile.
void drop(pool_state& state, const page_key& key, generation gen,
          std::vector<storage::evicted>& dropped) {
  if (auto held = state.pool->find(key); held && held->gen == gen)
    dropped.push_back(*state.pool->remove(key));
}

/// Every owner has answered, or its time is up: drops the pages that the cluster had already,
/// remembers those to be published again.
void settle(pool_state& state, commit_job& job, const publication& published) {
  if (std::exchange(job.settled, true))
    return;
  std::vector<storage::evicted> dropped;
  for (std::size_t i = 0; i < job.fills.size(); ++i) {
    if (job.outcomes[i].status != page_status::stored)
      continue;
    if (is_useless(job, published, i))
      drop(state, job.fills[i].key, job.outcomes[i].gen, dropped);
    else if (published.after_put(i) == publication::sequel::tell_all)
      state.unpublished.add_first(job.fills[i].key);
  }
  state.withdraw(dropped);
}

/// The answer to the gateway, by what is known so far. What stays goes to disk.
std::string statuses_of(pool_state& state, const commit_job& job, const publication& published) {
  std::string statuses;
  const bool write = state.disk.write_through() && job.mode != commit_mode::mirror;
  for (std::size_t i = 0; i < job.fills.size(); ++i) {
    auto status = job.outcomes[i].status;
    if (status == page_status::stored && is_useless(job, published, i))
      status = page_status::duplicate;
    else if (status == page_status::stored && !published.recorded[i] && !published.duplicate[i])
      status = page_status::unreachable;
    const bool stays = status == page_status::stored || status == page_status::unreachable;
    if (stays && write)
      if (const auto held = state.pool->find(job.fills[i].key))
        state.disk.keep(*held);
    if (status == page_status::stale) // It was set, and a clear has withdrawn it at once.
      status = page_status::stored;
    statuses.push_back(static_cast<char>(status));
  }
  return statuses;
}

owner_batches batches_of(const pool_state& state, const commit_job& job) {
  owner_batches batches{state.cluster->ring, state.options.replicas};
  auto mode = job.mode == commit_mode::skip ? publish_mode::if_absent : publish_mode::always;
  for (std::size_t i = 0; i < job.fills.size(); ++i) {
    if (job.outcomes[i].status != page_status::stored)
      continue;
    const auto& fill = job.fills[i];
    const auto& stored = job.outcomes[i];
    auto location =
        state.location_of({fill.key, stored.slot, stored.gen, fill.length_bytes, stored.checksum});
    batches.add(static_cast<std::uint32_t>(i), {fill.key, location, mode});
  }
  return batches;
}

} // namespace

commit_mode mode_of(std::uint8_t number) noexcept {
  return number < commit_modes ? static_cast<commit_mode>(number) : commit_mode::store;
}

caf::result<std::string, std::string> commit(pool_pointer self, const std::string& filled,
                                             commit_mode mode, const std::string& next_lengths) {
  auto& state = self->state;
  auto job = std::make_shared<commit_job>();
  job->fills = fills_of(filled);
  job->outcomes.resize(job->fills.size());
  job->mode = mode;
  take_in(state, *job);
  state.evict_ahead();
  auto promise = self->make_response_promise<std::string, std::string>();
  auto decided = [self, job, promise, next_lengths](publication& published) mutable {
    if (published.waiting == 0)
      settle(self->state, *job, published); // What is dropped makes room for the next ones.
    auto statuses = statuses_of(self->state, *job, published);
    send_to_disk(self);
    promise.deliver(std::move(statuses), self->state.reserve(next_lengths));
  };
  auto done = [self, job](publication& published) { settle(self->state, *job, published); };
  if (!state.publishes()) {
    publication nobody{job->fills.size()};
    nobody.unheard.assign(job->fills.size(), true);
    decided(nobody);
  } else {
    state.committing.push_back({self->clock().now(), publish(self, batches_of(state, *job).take(),
                                                             job->fills.size(), done, decided)});
  }
  return promise;
}

void decide_late_commits(pool_pointer self) {
  auto& committing = self->state.committing;
  const auto late = self->clock().now() - self->state.options.directory_timeout / 4;
  while (!committing.empty() && committing.front().since <= late) {
    const auto open = committing.front().on_way.lock();
    committing.pop_front();
    if (open)
      open->decide();
  }
}

namespace {

/// The next chunk of this queue. What goes to an owner that cannot be reached waits for the next
/// beat, and so does what is over the budget.
void publish_queue(pool_pointer self, node_id queue) {
  auto& state = self->state;
  if (!state.publishes())
    return;
  const bool to_one = queue != unpublished_pages::all_owners;
  const auto* owner = to_one ? state.cluster->find(queue) : nullptr;
  if (owner != nullptr && !owner->linked())
    return;
  const auto budget = to_one ? state.republishing.left(self->clock().now()) : UINT64_MAX;
  auto chunk = state.unpublished.take(
      queue, budget, state.cluster->ring, state.options.replicas, [&state](const page_key& key) {
        const auto page = state.pool->find(key);
        return page ? std::optional(state.location_of(*page)) : std::nullopt;
      });
  const auto count = chunk.pages.size();
  if (count == 0)
    return;
  if (to_one) {
    state.republished += count;
    state.republishing.spend(count);
  }
  publish(self, std::move(chunk.batches), count,
          [self, queue, sent = std::move(chunk.pages)](publication& said) {
            auto& own = self->state;
            const auto after = own.unpublished.settle(queue, sent, said);
            std::vector<storage::evicted> dropped;
            for (const auto& page : after.useless)
              drop(own, page.key, page.gen, dropped);
            own.withdraw(dropped);
            if (after.all_heard) // Otherwise the next beat tries again, not a hot loop.
              publish_queue(self, queue);
          });
}

} // namespace

void publish_unpublished(pool_pointer self) {
  for (const auto queue : self->state.unpublished.ready())
    publish_queue(self, queue);
}

void send_withdrawals(pool_pointer self) {
  auto& state = self->state;
  if (state.withdrawals.empty() || !state.joined())
    return;
  auto sent = std::make_shared<std::vector<pending_withdrawal>>(std::move(state.withdrawals));
  state.withdrawals.clear();
  owner_batches batches{state.cluster->ring, state.options.replicas};
  for (std::size_t i = 0; i < sent->size(); ++i)
    batches.add(static_cast<std::uint32_t>(i), (*sent)[i].record);
  for (auto& batch : batches.take()) {
    auto indices = std::make_shared<std::vector<std::uint32_t>>(std::move(batch.indices));
    auto try_again = [self, sent, indices] {
      for (auto index : *indices) {
        auto pending = (*sent)[index];
        if (++pending.attempts < pool_state::withdraw_attempts_max &&
            self->state.withdrawals.size() < pool_state::withdrawals_max)
          self->state.withdrawals.push_back(pending);
      }
    };
    const auto* owner = state.cluster->find(batch.owner);
    if (owner == nullptr || !owner->linked())
      try_again();
    else
      self->request(owner->directory, state.options.directory_timeout, withdraw_atom_v,
                    std::move(batch.records))
          .then(
              [try_again](std::uint64_t) {
                if (fault_setting(fault::withdrawals_unheard) != 0)
                  try_again();
              },
              [try_again](const caf::error&) { try_again(); });
  }
}

void withdraw_from_owners(pool_pointer self, const std::vector<directory::withdraw_record>& records,
                          const std::function<void()>& done) {
  auto& state = self->state;
  if (!state.joined())
    return done();
  owner_batches batches{state.cluster->ring, state.options.replicas};
  for (const auto& record : records)
    batches.add(0, record);
  auto waiting = std::make_shared<std::size_t>(1);
  auto one_less = [waiting, done] {
    if (--*waiting == 0)
      done();
  };
  for (auto& batch : batches.take()) {
    const auto* owner = state.cluster->find(batch.owner);
    if (owner == nullptr || !owner->linked())
      continue;
    ++*waiting;
    self->request(owner->directory, state.options.directory_timeout, withdraw_atom_v,
                  std::move(batch.records))
        .then([one_less](std::uint64_t) { one_less(); },
              [one_less](const caf::error&) { one_less(); });
  }
  one_less();
}

caf::result<bool> withdraw_everything(pool_pointer self) {
  auto& state = self->state;
  state.leaving = true;
  state.unpublished.clear();
  std::vector<directory::withdraw_record> records;
  state.pool->for_each_page([&](const storage::resident_page& page) {
    records.push_back({page.key, state.options.inc, page.gen});
  });
  auto promise = self->make_response_promise<bool>();
  withdraw_from_owners(self, records, [promise]() mutable { promise.deliver(true); });
  return promise;
}

namespace {

/// The owners that had the page not by the ring of before. They count against the budget.
void tell_new_owners(pool_state& state, const discovery::hash_ring& before,
                     const storage::resident_page& page) {
  std::array<node_id, discovery::hash_ring::replicas_max> fresh;
  auto count =
      discovery::new_owners(before, state.cluster->ring, page.key, state.options.replicas, fresh);
  for (std::size_t i = 0; i < count; ++i)
    state.unpublished.add({page.key, fresh[i]});
}

void tell_new_owners(pool_state& state, const discovery::hash_ring& before) {
  state.pool->for_each_page(
      [&](const storage::resident_page& page) { tell_new_owners(state, before, page); });
}

} // namespace

void tell_owners(pool_pointer self, const std::vector<storage::resident_page>& pages) {
  auto& state = self->state;
  if (!state.publishes())
    return;
  for (const auto& page : pages)
    tell_new_owners(state, {}, page);
  publish_unpublished(self);
}

void publish_again(pool_pointer self) {
  auto& state = self->state;
  state.unpublished.clear(); // All of it comes again.
  if (state.cluster)
    tell_new_owners(state, {});
  publish_unpublished(self);
  publish_disk(self, {});
}

void adopt_topology(pool_pointer self, const topology_ptr& next) {
  auto& state = self->state;
  auto before = std::move(state.cluster);
  state.cluster = next;
  if (!state.publishes() || (before && before->view == next->view))
    return;
  // In a view that was missed a member may have been out, which forgot everything since; and who
  // was in no view itself has told nobody anything.
  const bool saw_all = before && before->find(state.options.inc) != nullptr &&
                       next->view.version == before->view.version + 1;
  discovery::hash_ring none;
  const auto& old_ring = saw_all ? before->ring : none;
  if (!saw_all)
    state.unpublished.clear(); // All of it comes again.
  // So does what somebody out of reach, which owns it no more, will own again.
  state.unpublished.forget_moved(next->ring, state.options.replicas);
  tell_new_owners(state, old_ring);
  publish_unpublished(self);
  publish_disk(self, old_ring);
  repair_follow(self);
}

} // namespace peercache::actors
