// What clients of a node do: as client/get_call.cpp and client/directory_lookup.cpp, in steps of
// the simulated time, so that owners change their slots between any two of them.

#include "client/location_choice.hpp"
#include "common/guards.hpp"
#include "directory/wire.hpp"
#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::page_location;
using directory::tier;

namespace {

constexpr auto deadline = 1000ms;
constexpr std::size_t warm_up_puts = 5;

} // namespace

/// One get on its way.
struct get_operation {
  page_key key;
  time_point until;
  tests::history::call_number recorded = 0;
  bool second_look = false;
  incarnation avoided; ///< Its location was stale.
  int promotions = 0;
  std::function<void(bool)> done;
};

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
    return get(key, [](bool) {});
  }
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
  // A few pages take more than one granule, and one look more than one write.
  auto length = static_cast<std::uint32_t>(world.below(8) == 0 ? limits::granule_bytes + 64 : 64);
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

void process::get(const page_key& key, std::function<void(bool)> done) {
  auto op = std::make_shared<get_operation>();
  op->key = key;
  op->until = cluster_.time().now() + deadline;
  op->done = std::move(done);
  op->recorded = record_ask(op->until, "get");
  look_up(op);
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

void process::look_up(const operation& op) {
  std::make_shared<lookup>(cluster_, *this, std::vector{op->key}, op->until,
                           [this, op](std::span<const client::lookup_answer> told) {
                             if (told[0].status != page_status::hit)
                               return miss(op);
                             client::reader_place reader;
                             reader.own = inc_;
                             reader.own_node = host_.self.id;
                             reader.avoided = op->avoided;
                             read(op, client::choose_location(told[0], reader));
                           })
      ->begin();
}

void process::read(const operation& op, const page_location& where) {
  if (where.where == tier::disk)
    return promote(op, where);
  if (where.owner == inc_)
    return read_own(op, where);
  if (cluster_.time().below(2) == 0)
    return read_remote(op, where);
  read_pinned(op, where);
}

/// Out of the mapped pool: look, copy, look again; the owner may do anything in between.
void process::read_own(const operation& op, const page_location& where) {
  if (slots_.check(where.slot, where.gen, op->key, where.length_bytes) != page_status::hit)
    return stale(op, where);
  auto page = slots_.bytes(where.slot, where.length_bytes);
  auto copy = std::make_shared<std::vector<std::byte>>(page.begin(), page.end());
  cluster_.later(*this, std::chrono::microseconds(cluster_.time().below(2000)),
                 [op, where, copy](process& self) {
                   auto again = self.slots_.bytes(where.slot, where.length_bytes);
                   auto half = static_cast<std::ptrdiff_t>(copy->size() / 2);
                   std::copy(again.begin() + half, again.end(), copy->begin() + half);
                   if (!self.slots_.still_readable(where.slot, where.gen))
                     return self.stale(op, where);
                   self.hit(op, where, *copy);
                 });
}

/// One-sided: the payload, then the entry; over a connection with the process that runs there.
void process::read_remote(const operation& op, const page_location& where) {
  auto open = std::make_shared<bool>(true); // Whichever comes first ends it: the owner or the time.
  cluster_.later(*this, op->until - cluster_.time().now(), [op, open](process& self) {
    if (std::exchange(*open, false))
      self.miss(op);
  });
  auto fits = [where](const process* there) {
    return there != nullptr && (there->inc() == where.owner || !guard_on(guard::incarnation));
  };
  cluster_.reach(*this, where.owner, [this, op, where, open, fits](process* owner) {
    if (!*open)
      return;
    if (!fits(owner) || !owner->slots_.in_range(where.slot, where.length_bytes)) {
      *open = false;
      return stale(op, where);
    }
    auto page = owner->slots_.bytes(where.slot, where.length_bytes);
    auto copy = std::make_shared<std::vector<std::byte>>(page.begin(), page.end());
    cluster_.reach(*this, where.owner, [this, op, where, open, fits, copy](process* then) {
      if (!std::exchange(*open, false))
        return;
      if (!fits(then) || then->slots_.check(where.slot, where.gen, op->key, where.length_bytes) !=
                             page_status::hit)
        return stale(op, where);
      hit(op, where, *copy);
    });
  });
}

/// Over TCP: the owner pins, sends in parts, unpins.
void process::read_pinned(const operation& op, const page_location& where) {
  auto one = std::make_shared<std::vector<std::byte>>();
  auto send_rest = [op, where, one](process& owner) {
    auto page = owner.slots_.bytes(where.slot, where.length_bytes);
    one->insert(one->end(), page.begin() + static_cast<std::ptrdiff_t>(one->size()), page.end());
    owner.slots_.unpin(where.slot);
  };
  auto& net = cluster_;
  auto send = [where, op, one, send_rest, &net](process& owner) {
    auto status = owner.slots_.pin_if(where.slot, where.gen, op->key, where.length_bytes);
    if (status != page_status::hit)
      return std::string{};
    auto page = owner.slots_.bytes(where.slot, where.length_bytes);
    one->assign(page.begin(), page.begin() + static_cast<std::ptrdiff_t>(page.size() / 2));
    // One reader in eight is slow.
    auto longest = net.time().below(8) == 0 ? 400'000 : 3'000;
    auto takes = std::chrono::microseconds(net.time().below(static_cast<std::uint64_t>(longest)));
    net.later(owner, takes, send_rest);
    return std::string("pinned");
  };
  net.ask(*this, where.owner, send, op->until - net.time().now(),
          [this, op, where, one](const cluster::answer& said) {
            if (!said)
              return miss(op);
            if (said->empty())
              return stale(op, where);
            // The rest comes as soon as the owner gets to it; a frozen one does not.
            const auto left = op->until - cluster_.time().now();
            cluster_.later(*this, std::min<duration>(500ms, left), [op, where, one](process& self) {
              if (one->size() != where.length_bytes)
                return self.miss(op);
              self.hit(op, where, *one);
            });
          });
}

void process::promote(const operation& op, const page_location& where) {
  if (++op->promotions > 2)
    return miss(op);
  cluster_.ask(
      *this, where.owner, [key = op->key](process& owner) { return owner.serve_promote(key); },
      op->until - cluster_.time().now(),
      [this, op, where](const cluster::answer& said) {
        std::array<page_location, limits::locations_per_key_max> locations;
        std::size_t count = 0;
        directory::answer_reader reader{said ? *said : std::string_view{}};
        if (!said || !reader.next(locations, count))
          return miss(op);
        if (count == 0)
          return look_again(op, where);
        read(op, locations[0]);
      });
}

/// The holder has that no more. Where the directory itself has just said so, it is told.
void process::stale(const operation& op, const page_location& where) {
  if (op->second_look)
    withdrawals_.push_back({{op->key, where.owner, where.gen}, 0});
  look_again(op, where);
}

/// The directory may know better by now; once.
void process::look_again(const operation& op, const page_location& where) {
  if (std::exchange(op->second_look, true))
    return miss(op);
  op->avoided = where.owner;
  look_up(op);
}

void process::hit(const operation& op, const page_location& where,
                  const std::vector<std::byte>& bytes) {
  cluster_.judge().judge_hit(op->key, where.owner, bytes);
  if (auto* record = cluster_.record())
    record->hit(op->recorded, op->key, bytes, to_string(where.owner));
  record_return(op->recorded);
  ++cluster_.counts().hits;
  cluster_.time().note(where.gen.value);
  op->done(true);
}

void process::miss(const operation& op) {
  record_return(op->recorded);
  ++cluster_.counts().misses;
  op->done(false);
}

} // namespace peercache::scenario
