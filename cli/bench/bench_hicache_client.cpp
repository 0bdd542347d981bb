#include "cli/bench/bench_hicache.hpp"

#include <algorithm>
#include <cstring>
#include <future>

namespace peercache::cli {

/// The work of one rank, done by C++ clients: one of each node.
class client_ranks::rank {
public:
  rank(bench_setup& setup, const hicache_bench_options& options, std::span<std::byte> memory,
       std::uint32_t writes_for)
      : setup_(setup), model_(options.model), memory_(memory), writes_for_(writes_for) {}

  bool writes() const { return writes_for_ != 0; }

  result<void> connect() {
    for (auto index : {0u, 1u}) {
      auto made = setup_.connect(index, {});
      if (!made)
        return made.error();
      clients_.push_back(std::move(*made));
    }
    return {};
  }

  result<void> store(bench_place where) {
    auto& client = *clients_[static_cast<std::size_t>(where)];
    auto& keys = stored_[static_cast<std::size_t>(where)];
    keys = setup_.fresh_keys(std::size_t{hicache_model::batch_pages} * hicache_stored_batches);
    for (std::uint32_t batch = 0; batch < hicache_stored_batches; ++batch)
      if (auto put = set(client, batch_of(keys, batch)); !put)
        return put;
    return flush(client);
  }

  void read_what(const rank& writer, bench_place where) {
    const auto place = static_cast<std::size_t>(where);
    stored_[place] = writer.stored_[place];
  }

  /// Makes the keys that `run` will set, before `run` has a thread of its own, since the setup
  /// belongs to one thread. Wipes the memory that `run` gets pages into, as the simulated ranks
  /// wipe theirs, so that the processor's caches are in the same state in both measurements.
  void prepare(const hicache_work& work) {
    new_keys_.clear();
    if (work.what != hicache_work::kind::set && work.what != hicache_work::kind::exists)
      for (std::uint32_t half = 0; half < model_.halves; ++half)
        std::memset(part_at(1, 0, half), 0xEE, target_batches * batch_half_bytes());
    const bool sets =
        work.what == hicache_work::kind::set || work.what == hicache_work::kind::request;
    if (sets && writes())
      new_keys_ = setup_.fresh_keys(std::size_t{hicache_model::batch_pages} * calls_of(work));
  }

  result<bench::round_sample> run(const hicache_work& work) {
    const bool counts_keys = work.what == hicache_work::kind::exists;
    const auto units = counts_keys ? double{hicache_model::batch_pages}
                                   : static_cast<double>(model_.batch_bytes());
    std::uint32_t index = 0;
    auto begin = bench::clock::now();
    auto sample = timed_calls(calls_of(work), units, [&] { return call(work, index++); });
    if (!new_keys_.empty())
      if (auto published = flush(*clients_[0]); !published)
        return published.error();
    if (sample)
      sample->seconds = bench::seconds_between(begin, bench::clock::now());
    return sample;
  }

private:
  using keys = std::span<const page_key>;
  static constexpr std::size_t target_batches = 2;

  /// How many calls this rank makes: a rank that writes for other ranks makes their calls too.
  std::uint32_t calls_of(const hicache_work& work) const {
    return work.what == hicache_work::kind::set ? work.calls * writes_for_ : work.calls;
  }

  std::size_t batch_half_bytes() const {
    return std::size_t{hicache_model::batch_pages} * model_.part_bytes();
  }

  /// The place in memory of one part of a page. Memory holds K of all pages, then V of all pages,
  /// as SGLang's host pool does.
  std::byte* part_at(std::size_t batch, std::uint32_t page, std::uint32_t half) const {
    const auto pages = std::size_t{hicache_model::batch_pages};
    const auto piece = (half * (1 + target_batches) + batch) * pages + page;
    return memory_.data() + piece * model_.part_bytes();
  }

  static keys batch_of(keys all, std::uint32_t index) {
    const auto batches = all.size() / hicache_model::batch_pages;
    return all.subspan(index % batches * hicache_model::batch_pages, hicache_model::batch_pages);
  }

  result<void> call(const hicache_work& work, std::uint32_t index) {
    const keys stored = stored_[static_cast<std::size_t>(work.from)];
    switch (work.what) {
    case hicache_work::kind::exists:
      return exists(batch_of(stored, index));
    case hicache_work::kind::get:
      return get(batch_of(stored, index));
    case hicache_work::kind::set:
      return set(*clients_[0], batch_of(new_keys_, index));
    case hicache_work::kind::request:
      break;
    }
    return request(batch_of(stored, index), index);
  }

  result<void> request(keys wanted, std::uint32_t index) {
    std::future<result<void>> backup;
    if (writes())
      backup = std::async(std::launch::async,
                          [&] { return set(*clients_[0], batch_of(new_keys_, index)); });
    auto read = exists(wanted);
    if (read)
      read = get(wanted);
    auto put = writes() ? backup.get() : result<void>{};
    return read ? put : read;
  }

  result<void> exists(keys wanted) {
    std::vector<client::page_result> results(wanted.size());
    clients_[0]->exists(wanted, results);
    return all_are(results, page_status::hit, "exists");
  }

  result<void> get(keys wanted) {
    std::vector<page_part> parts;
    const auto first = std::size_t{1} + turn_++ % target_batches;
    for (std::uint32_t page = 0; page < wanted.size(); ++page)
      for (std::uint32_t half = 0; half < model_.halves; ++half)
        parts.push_back({part_at(first, page, half), model_.part_bytes()});
    std::vector<client::get_page> pages;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      pages.push_back(
          {wanted[i], std::span<const page_part>{parts}.subspan(i * model_.halves, model_.halves)});
    std::vector<client::page_result> results(wanted.size());
    clients_[0]->get(pages, results);
    return all_are(results, page_status::hit, "get");
  }

  result<void> set(client::cache_client& client, keys wanted) const {
    std::vector<client::const_part> parts;
    for (std::uint32_t page = 0; page < wanted.size(); ++page)
      for (std::uint32_t half = 0; half < model_.halves; ++half)
        parts.push_back({part_at(0, page, half), model_.part_bytes()});
    std::vector<client::set_page> pages;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      pages.push_back({wanted[i], std::span<const client::const_part>{parts}.subspan(
                                      i * model_.halves, model_.halves)});
    std::vector<client::page_result> results(wanted.size());
    client.set(pages, results);
    return all_are(results, page_status::stored, "set");
  }

  static result<void> flush(client::cache_client& client) {
    auto published = client.flush();
    if (!published)
      return published.error();
    return {};
  }

  bench_setup& setup_;
  const hicache_model model_;
  /// Sets take the first batch of this memory, gets go into the rest.
  std::span<std::byte> memory_;
  /// How many ranks' pages this rank sets: its own, those of all ranks, or none.
  const std::uint32_t writes_for_;
  std::size_t turn_ = 0;
  /// Clients of the nodes, by bench_place.
  std::vector<std::unique_ptr<client::cache_client>> clients_;
  std::vector<page_key> stored_[2]; ///< Keys of stored pages, by bench_place.
  std::vector<page_key> new_keys_;
};

client_ranks::client_ranks() = default;
client_ranks::~client_ranks() = default;

result<std::unique_ptr<client_ranks>> client_ranks::connect(bench_setup& setup,
                                                            const hicache_bench_options& options) {
  std::unique_ptr<client_ranks> made{new client_ranks};
  const auto memory = setup.own_memory();
  const auto share = memory.size() / options.ranks;
  for (std::uint32_t index = 0; index < options.ranks; ++index) {
    const auto writes_for = !options.model.is_mla() ? 1 : index == 0 ? options.ranks : 0;
    auto one =
        std::make_unique<rank>(setup, options, memory.subspan(index * share, share), writes_for);
    if (auto connected = one->connect(); !connected)
      return connected.error();
    made->ranks_.push_back(std::move(one));
  }
  return made;
}

result<void> client_ranks::store(bench_place where) {
  for (auto& each : ranks_) {
    if (!each->writes())
      each->read_what(*ranks_.front(), where);
    else if (auto stored = each->store(where); !stored)
      return stored;
  }
  return {};
}

result<bench::round_sample> client_ranks::run(const hicache_work& work) {
  for (auto& each : ranks_)
    each->prepare(work);
  callers_ = 1;
  if (ranks_.size() == 1)
    return ranks_.front()->run(work);
  callers_ = 0;
  std::vector<std::future<result<bench::round_sample>>> running;
  for (auto& each : ranks_)
    running.push_back(std::async(std::launch::async, [&each, &work] { return each->run(work); }));
  bench::round_sample all;
  std::optional<error> fault;
  for (auto& each : running) {
    auto sample = each.get();
    if (!sample) {
      fault = sample.error();
      continue;
    }
    callers_ += sample->call_us.empty() ? 0 : 1;
    all.units += sample->units;
    all.seconds = std::max(all.seconds, sample->seconds);
    all.call_us.insert(all.call_us.end(), sample->call_us.begin(), sample->call_us.end());
  }
  if (fault)
    return *fault;
  return all;
}

} // namespace peercache::cli
