// Clients of a node: what they call, and what they go by.

#include "common/checksum.hpp"
#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <algorithm>

namespace peercache::scenario {

using namespace std::chrono_literals;

namespace {

constexpr auto deadline = 1000ms;
constexpr std::size_t warm_up_puts = 5;
constexpr std::uint32_t short_page = 64;

} // namespace

void process::operate() {
  auto& world = cluster_.time();
  // An engine that starts again puts what it put before, in the same order.
  if (warmed_ < warm_up_puts)
    return put(cluster_.key((host_.index * 5 + warmed_++) % cluster_.settings().keys), true);
  const auto& key = cluster_.key(world.below(cluster_.settings().keys));
  switch (world.below(16)) {
  case 0:
  case 1:
  case 2:
  case 3:
  case 4:
    return put(key, world.below(4) == 0);
  case 5:
    return remove(key);
  case 6:
  case 7:
    return exists(some_keys(), [](auto) {});
  default:
    std::vector<wanted_page> pages;
    for (const auto& wanted : world.below(4) == 0 ? some_keys() : std::vector{key})
      pages.push_back({wanted, length_for(wanted)});
    return get(pages, [](auto) {});
  }
}

/// Some pages take more than one granule, and one look more than one write. All calls mean the same
/// length of a key, but for a few.
std::uint32_t process::length_for(const page_key& key) {
  const bool is_long = key.prefix() % 8 == 0;
  const bool is_other = cluster_.time().below(16) == 0;
  return is_long != is_other ? static_cast<std::uint32_t>(limits::granule_bytes) + short_page
                             : short_page;
}

/// As an engine asks for a prefix: many keys at once, of different owners.
std::vector<page_key> process::some_keys() {
  auto& world = cluster_.time();
  const auto first = world.below(cluster_.settings().keys);
  const auto count = 1 + world.below(8);
  std::vector<page_key> keys;
  for (std::uint64_t i = 0; i < count; ++i)
    keys.push_back(cluster_.key((first + i) % cluster_.settings().keys));
  return keys;
}

/// One page on its way into the pool.
struct process::set_call {
  set_call(const page_key& key, std::uint32_t length)
      : part{nullptr, length}, page{key, {&part, 1}} {}

  client::const_part part;
  client::set_page page;
  client::page_result result;
  client::set_plan plan{{&page, 1}, {&result, 1}};
  time_point until;
  std::uint64_t put = 0; ///< Its number.
  directory::publish_mode mode = directory::publish_mode::always;
};

void process::put(const page_key& key, bool always) {
  if (drained_ || leaving_)
    return;
  auto& world = cluster_.time();
  auto call = std::make_shared<set_call>(key, length_for(key));
  call->until = world.now() + deadline;
  if (!always)
    call->mode = directory::publish_mode::if_absent;
  if (on_own_host(key, call->part.bytes))
    call->plan.is_here(0);
  if (const auto lengths = call->plan.ask(); !lengths.empty())
    call->plan.take_slots(serve_reserve(lengths), page_status::pending);
  for (const auto& page : call->plan.to_fill()) {
    call->put = cluster_.judge().put(key);
    ++cluster_.counts().puts;
    std::vector<std::byte> bytes(call->part.bytes);
    oracle::write(bytes, call->put);
    if (auto* record = cluster_.record())
      record->put(world.now(), to_string(inc_), key, bytes);
    std::copy_n(bytes.begin(), bytes.size() / 2, slots_.bytes(page.slot, call->part.bytes).begin());
    cluster_.later(*this, std::chrono::microseconds(world.below(3000)),
                   [call, page](process& self) { self.fill_rest(call, page); });
  }
}

void process::fill_rest(const set_call_ptr& call, const client::set_plan::page& page) {
  const auto bytes = slots_.bytes(page.slot, call->part.bytes);
  if (cluster_.time().now() >= call->until) {
    call->plan.too_late(page.index);
  } else {
    oracle::write(bytes, call->put);
    call->plan.filled(page.index, checksum_of(bytes));
  }
  const auto filled = call->plan.commit([&](const actors::filled_slot& now) {
    cluster_.judge().offers(inc_, call->put);
    record_hold(now.key, bytes);
    return slots_.fill(now.slot, now.key, now.length_bytes, now.checksum) &&
           index_.insert(now.key, now.slot);
  });
  // The node hears of it a little later, and readers of this host need not wait for that.
  cluster_.later(*this, std::chrono::microseconds(cluster_.time().below(500)),
                 [filled, unfilled = call->plan.take_unfilled(), mode = call->mode](process& self) {
                   self.serve_abandon(unfilled);
                   self.serve_commit(filled, mode);
                 });
}

/// One removal on its way.
struct process::remove_call {
  explicit remove_call(const page_key& what) : key(what) {}

  const page_key key;
  client::page_result result;
  client::remove_plan plan{{&key, 1}, {&result, 1}};
  time_point until;
  std::size_t open = 1; ///< Answers that are on their way.
};

void process::remove(const page_key& key) {
  auto call = std::make_shared<remove_call>(key);
  call->until = cluster_.time().now() + deadline;
  if (on_own_host(key, 0))
    call->plan.is_here(0);
  auto told = [this, call](std::span<const client::lookup_answer> answers) {
    call->plan.looked_up(answers);
    ask_holders(call);
  };
  std::make_shared<lookup>(cluster_, *this, std::vector{key}, call->until, told)->begin();
}

void process::ask_holders(const remove_call_ptr& call) {
  for (const auto& share : call->plan.ask_holders(readers_know().is_member, inc_)) {
    ++call->open;
    cluster_.ask(
        *this, share.holder, [keys = share.keys](process& it) { return it.serve_remove(keys); },
        call->until - cluster_.time().now(),
        [this, call, share](const cluster::answer& said) {
          if (said)
            call->plan.answered(share, *said, remembered_.stale);
          else
            call->plan.failed(share);
          removed(call);
        });
  }
  removed(call);
}

void process::removed(const remove_call_ptr& call) {
  if (--call->open > 0)
    return;
  remembered_.locations.erase(call->key);
  call->plan.end();
  tell_stale_records();
}

void process::get(const std::vector<wanted_page>& pages, get_call::told done) {
  const auto until = cluster_.time().now() + deadline;
  std::make_shared<get_call>(cluster_, *this, pages, until, std::move(done))->begin();
}

void process::get(const wanted_page& page, std::function<void(page_status)> done) {
  get(std::vector{page}, [done = std::move(done)](std::span<const client::page_result> results) {
    done(results[0].status);
  });
}

client::readers_cluster process::readers_know() const {
  client::readers_cluster known;
  (has_left() ? known.left : known.own) = inc_;
  known.is_member = [cluster = clients_know_](const incarnation& process) {
    return cluster->view.find(process) != nullptr;
  };
  return known;
}

std::optional<directory::page_location> process::on_own_host(const page_key& key,
                                                             std::uint32_t length_bytes) const {
  const auto found = index_.find(key, length_bytes);
  if (!found || has_left())
    return std::nullopt;
  const auto& page = found->contents;
  return directory::page_location{host_.self.id, inc_,        page.gen,
                                  page.checksum, found->slot, page.length_bytes};
}

void process::tell_stale_records() {
  const auto records = remembered_.stale.take();
  actors::owner_batches batches{*clients_know_->ring, cluster_.settings().replicas};
  for (const auto& record : records)
    batches.add(0, record);
  for (auto& batch : batches.take())
    if (const auto* owner = clients_know_->view.find(batch.owner))
      cluster_.ask(
          *this, owner->inc,
          [records = std::move(batch.records)](process& it) { return it.serve_withdraw(records); },
          deadline, [](const cluster::answer&) {});
}

void process::exists(std::vector<page_key> keys, lookup::told done) {
  const auto until = cluster_.time().now() + deadline;
  std::make_shared<lookup>(
      cluster_, *this, std::move(keys), until,
      [this, call = record_ask(until, "exists"), done = std::move(done)](const auto& told) {
        record_return(call);
        done(told);
      })
      ->begin();
}

void process::record_hold(const page_key& key, std::span<const std::byte> bytes) const {
  if (auto* record = cluster_.record())
    record->hold(cluster_.time().now(), to_string(inc_), key, bytes);
}

tests::history::call_number process::record_ask(time_point until, std::string_view kind) const {
  auto* record = cluster_.record();
  return record != nullptr ? record->ask(cluster_.time().now(), until, to_string(inc_), kind) : 0;
}

void process::record_return(tests::history::call_number call) const {
  if (auto* record = cluster_.record())
    record->returned(call, cluster_.time().now());
}

} // namespace peercache::scenario
