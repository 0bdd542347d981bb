#pragma once

#include "bench/page_content.hpp"
#include "cli/demo/demo_report.hpp"
#include "client/cache_client.hpp"
#include "common/page_key.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace peercache::cli {

/// Plays requests against a cache the way an engine does: asks which pages exist, gets the leading
/// run of those that do, compares every byte, puts the rest, and waits until they are published, so
/// that the next request meets them on whichever node it goes to.
///
/// `Cache` has cache_client's exists, get, set and flush. Threads: one. Ownership: the memory of
/// one request's pages. Page ids are below 2^32: see bench/page_content.hpp.
template <class Cache>
class demo_replay {
public:
  demo_replay(std::uint32_t page_bytes, key_space space) : page_bytes_(page_bytes), space_(space) {}

  void request(Cache& cache, std::span<const std::uint64_t> ids) {
    prepare(ids);
    cache.exists(keys_, results_);
    auto leading = run_of_hits(results_);
    asked_ = results_;
    auto got = fetch(cache, ids, leading);
    count_misses(got, leading);
    store(cache, ids, got);
    counts_.requests += 1;
    counts_.pages += ids.size();
    counts_.hits += got;
  }

  const demo_counts& counts() const { return counts_; }

private:
  void prepare(std::span<const std::uint64_t> ids) {
    keys_.clear();
    for (auto id : ids)
      keys_.push_back(space_.key_of(std::to_string(id)));
    results_.assign(ids.size(), {});
    if (memory_.size() < ids.size() * page_bytes_)
      memory_.resize(ids.size() * page_bytes_);
  }

  std::span<std::byte> page(std::size_t index) {
    return {memory_.data() + index * page_bytes_, page_bytes_};
  }

  static std::size_t run_of_hits(std::span<const client::page_result> results) {
    auto end = std::find_if(results.begin(), results.end(),
                            [](const auto& page) { return page.status != page_status::hit; });
    return static_cast<std::size_t>(end - results.begin());
  }

  /// Gets the first `count` pages of a request; returns how many of them arrived in one leading run
  /// with the right bytes.
  std::size_t fetch(Cache& cache, std::span<const std::uint64_t> ids, std::size_t count) {
    if (count == 0)
      return 0;
    std::vector<page_part> parts;
    std::vector<client::get_page> wanted;
    for (std::size_t i = 0; i < count; ++i) {
      std::fill_n(page(i).data(), page_bytes_,
                  // The page is overwritten first, since bytes of an earlier request would prove
                  // nothing.
                  std::byte{0xa5});
      parts.push_back({page(i).data(), page_bytes_});
    }
    for (std::size_t i = 0; i < count; ++i)
      wanted.push_back({keys_[i], {&parts[i], 1}});
    std::span results(results_.data(), count);
    std::fill(results.begin(), results.end(), client::page_result{});
    cache.get(wanted, results);
    for (std::size_t i = 0; i < count; ++i) {
      if (results[i].status != page_status::hit)
        continue;
      auto check = bench::check_page(static_cast<std::uint32_t>(ids[i]), page(i));
      counts_.wrong_bytes += check.wrong_bytes;
      if (check.wrong_bytes == 0)
        continue;
      counts_.wrong_pages += 1;
      results[i].status = page_status::corrupt; // A page with wrong bytes is not a hit.
    }
    return run_of_hits(results);
  }

  /// Counts every page behind the `got` leading ones as a miss. Only the pages below `asked` were
  /// asked for with `get`.
  void count_misses(std::size_t got, std::size_t asked) {
    for (std::size_t i = got; i < results_.size(); ++i) {
      auto status = i < asked ? results_[i].status : asked_[i].status;
      if (status == page_status::hit)
        counts_.misses_behind_a_miss += 1;
      else
        counts_.misses[static_cast<std::size_t>(status)] += 1;
    }
  }

  void store(Cache& cache, std::span<const std::uint64_t> ids, std::size_t first) {
    auto count = ids.size() - first;
    if (count == 0)
      return;
    std::vector<client::const_part> parts;
    std::vector<client::set_page> pages;
    for (std::size_t i = first; i < ids.size(); ++i) {
      bench::fill_page(static_cast<std::uint32_t>(ids[i]), 0, page(i));
      parts.push_back({page(i).data(), page_bytes_});
    }
    for (std::size_t i = 0; i < count; ++i)
      pages.push_back({keys_[first + i], {&parts[i], 1}});
    std::vector<client::page_result> stored(count);
    cache.set(pages, stored);
    for (const auto& page : stored) {
      if (page.status == page_status::stored)
        counts_.pages_put += 1;
      else
        counts_.puts_skipped[static_cast<std::size_t>(page.status)] += 1;
    }
    auto flushed = cache.flush();
    counts_.puts_unpublished += flushed ? flushed->failed : count;
    auto duplicates = flushed ? flushed->duplicates : 0;
    counts_.pages_put -= duplicates;
    counts_.puts_skipped[static_cast<std::size_t>(page_status::duplicate)] += duplicates;
  }

  std::uint32_t page_bytes_;
  key_space space_;
  demo_counts counts_;
  std::vector<std::byte> memory_;
  std::vector<page_key> keys_;
  std::vector<client::page_result> results_;
  std::vector<client::page_result> asked_;
};

} // namespace peercache::cli
