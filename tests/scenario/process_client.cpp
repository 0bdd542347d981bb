// Clients of a node: what they call, and what they go by.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::tier;

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

void process::put(const page_key& key, bool always) {
  if (pool_->find(key) || drained_ || leaving_)
    return;
  auto& world = cluster_.time();
  const auto length = length_for(key);
  std::vector<storage::evicted> victims;
  auto slot = pool_->reserve(length, victims);
  give_up(victims);
  if (!slot)
    return;
  auto number = cluster_.judge().put(key);
  ++cluster_.counts().puts;
  std::vector<std::byte> page(length);
  oracle::write(page, number);
  if (auto* record = cluster_.record())
    record->put(world.now(), to_string(inc_), key, page);
  std::memcpy(slots_.bytes(*slot, length).data(), page.data(), length / 2);
  cluster_.later(*this, std::chrono::microseconds(world.below(3000)),
                 [key, length, number, always, at = *slot](process& self) {
                   self.fill_rest(key, at, length, number, always);
                 });
}

void process::fill_rest(const page_key& key, slot_id slot, std::uint32_t length, std::uint64_t put,
                        bool always) {
  oracle::write(slots_.bytes(slot, length), put);
  cluster_.judge().offers(inc_, put);
  slots_.fill(slot, key, length, 0);
  storage::fill filled{slot, key, length, 0};
  storage::commit_outcome outcome;
  pool_->commit({&filled, 1}, {&outcome, 1});
  if (outcome.replaced)
    give_up({*outcome.replaced});
  if (outcome.status != page_status::stored)
    return;
  record_hold(key, slots_.bytes(slot, length));
  if (cluster_.settings().disk)
    cluster_.later(*this, 5ms, [key](process& self) { self.keep_on_disk(key); });
  using directory::publish_mode;
  publish_put(key, outcome.gen, always ? publish_mode::always : publish_mode::if_absent);
}

void process::remove(const page_key& key) {
  host_.disk.erase(key);
  if (auto gone = pool_->remove(key))
    give_up({*gone});
  else if (joined())
    withdrawals_.push_back({{key, inc_, pool_->newest(), tier::disk}, 0});
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
