#include "cli/bench/bench_redis.hpp"
#include "cli/bench/bench_setup.hpp"
#include "common/log.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace peercache::cli {

namespace {

constexpr std::size_t small_page_bytes = 4096;
constexpr std::size_t keys_stored = 16384;
constexpr std::size_t keys_per_batch = 128;
/// The raw exchange that `exists` is compared with moves the bytes of a directory look-up: each key
/// in the request, a count and one location for it in the reply.
constexpr std::uint32_t request_bytes_per_key = sizeof(page_key);
constexpr std::uint32_t reply_bytes_per_key = 1 + 52;

/// Walks through a list of keys in batches of `count`, beginning at the key `start`.
class key_walk {
public:
  key_walk(std::span<const page_key> keys, std::size_t count, std::size_t start)
      : keys_(keys), count_(count), next_(start % (keys.size() - count + 1)) {}
  std::span<const page_key> next() {
    next_ = next_ + count_ > keys_.size() ? 0 : next_;
    auto some = keys_.subspan(next_, count_);
    next_ += count_;
    return some;
  }

private:
  std::span<const page_key> keys_;
  std::size_t count_;
  std::size_t next_;
};

result<void> ask(client::cache_client& client, std::span<const page_key> keys,
                 std::vector<client::page_result>& results) {
  results.assign(keys.size(), {});
  client.exists(keys, results);
  return all_are(results, page_status::hit, "exists");
}

/// The median time in which redis answers for `count` keys.
result<double> redis_p50(redis_server& redis, std::span<const page_key> keys, std::size_t count,
                         std::size_t calls) {
  key_walk walk(keys, count, 0);
  auto sample = timed_calls(calls, 1, [&] { return redis.exists(walk.next()); });
  if (!sample)
    return sample.error();
  auto& times = sample->call_us;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

result<void> bench_latency(bench_setup& setup, client::cache_client& client,
                           std::span<const page_key> keys, std::size_t count, redis_server* redis,
                           std::vector<bench_row>& rows) {
  auto raw = setup.connect_raw();
  if (!raw)
    return raw.error();
  key_walk walk(keys, count, 0);
  std::vector<client::page_result> results;
  std::vector<std::byte> reply(count * reply_bytes_per_key);
  std::span<std::byte> whole(reply);
  auto calls = std::size_t{setup.options().calls} * 10;
  auto exists = [&] {
    return timed_calls(calls, static_cast<double>(count),
                       [&] { return ask(client, walk.next(), results); });
  };
  auto exchange = [&] {
    return timed_calls(calls, static_cast<double>(count), [&] {
      return raw->exchange(static_cast<std::uint32_t>(count) * request_bytes_per_key, {&whole, 1});
    });
  };
  bench_row row{.name = "exists", .batch = count, .kind = ratio_kind::latency};
  row.target = count == 1 ? 1.2 : 1.3;
  const lookup_count asked(client);
  if (auto measured = measure(row, setup.options().rounds, exists, exchange); !measured)
    return measured;
  if (auto noted = asked.note(row); !noted)
    return noted;
  auto cost = cost_of_calls(setup.callers_and_nodes(), calls, exists);
  auto limit_cost = cost_of_calls(setup.callers_and_raw_server(), calls, exchange);
  if (!cost || !limit_cost)
    return cost ? limit_cost.error() : cost.error();
  row.call = *cost;
  row.limit_call = *limit_cost;
  if (redis != nullptr) {
    auto p50 = redis_p50(*redis, keys, count, calls);
    if (!p50)
      return p50.error();
    row.redis_p50_us = *p50;
  }
  rows.push_back(std::move(row));
  return {};
}

result<void> bench_pipelined(bench_setup& setup, client::cache_client& client,
                             std::span<const page_key> keys, std::vector<bench_row>& rows) {
  auto raw = setup.connect_raw();
  if (!raw)
    return raw.error();
  const auto& options = setup.options();
  constexpr std::uint32_t depth = 64;
  std::vector<std::byte> reply(keys_per_batch * reply_bytes_per_key);
  // One call of `exists` has `depth` batches of keys: the client sends the batches over one
  // connection, many on their way at a time.
  key_walk walk(keys, keys_per_batch * depth, 0);
  std::vector<client::page_result> results;
  auto exists = [&] {
    return timed_calls(options.calls, double{keys_per_batch} * depth,
                       [&] { return ask(client, walk.next(), results); });
  };
  auto exchange = [&] {
    return timed_calls(options.calls, double{keys_per_batch} * depth, [&] {
      return raw->exchange_pipelined(keys_per_batch * request_bytes_per_key, reply, depth);
    });
  };
  bench_row row{
      .name = "exists_pipelined", .batch = keys_per_batch, .kind = ratio_kind::rate, .target = 5e6};
  const lookup_count asked(client);
  if (auto measured = measure(row, options.rounds, exists, exchange); !measured)
    return measured;
  if (auto noted = asked.note(row); !noted)
    return noted;
  const auto cost = cost_of_calls(setup.other_node(), options.calls, exists);
  if (!cost)
    return cost.error();
  if (cost->cpu_us > 0) // The kernel may not count what threads cost.
    row.keys_per_node_second = double{keys_per_batch} * depth * 1e6 / cost->cpu_us;
  rows.push_back(std::move(row));
  return {};
}

/// A redis-server that has these keys; null where none is installed. Where one is and cannot be
/// used, a warning says so and the result is null too: the measurement goes on without it.
std::unique_ptr<redis_server> redis_with(std::span<const page_key> keys) {
  auto started = redis_server::start();
  if (started && !*started)
    return nullptr;
  auto stored = started ? (*started)->store(keys, reply_bytes_per_key) : started.error();
  if (!stored) {
    log::warn("bench: no comparison with redis-server: {}", stored.error().message);
    return nullptr;
  }
  return std::make_unique<redis_server>(std::move(**started));
}

} // namespace

result<void> bench_exists(bench_setup& setup, std::vector<bench_row>& rows) {
  auto client = setup.connect(0, {});
  if (!client)
    return client.error();
  // The other host has both the pages and their records: pages of the client's own host would be
  // found in its pool, and records there in its node's shard, and no node would be asked.
  auto producer = setup.connect(1, {});
  if (!producer)
    return producer.error();
  auto keys = setup.fresh_keys_of_other_host(keys_stored);
  if (!keys)
    return keys.error();
  if (auto stored = store_pages(**producer, *keys, setup.own_memory(), small_page_bytes); !stored)
    return stored;
  const auto redis = setup.options().wants("exists") ? redis_with(*keys) : nullptr;
  setup.pin(pinning::apart);
  if (redis)
    setup.pin_with_nodes(redis->pid());
  if (setup.options().wants("exists"))
    for (auto count : {keys_per_batch, std::size_t{1}})
      if (auto done = bench_latency(setup, **client, *keys, count, redis.get(), rows); !done)
        return done;
  if (setup.options().wants("exists_pipelined"))
    if (auto done = bench_pipelined(setup, **client, *keys, rows); !done)
      return done;
  setup.pin(pinning::none);
  return {};
}

} // namespace peercache::cli
