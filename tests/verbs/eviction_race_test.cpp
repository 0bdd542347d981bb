// Tests of readers over Soft-RoCE while the owner of the pool overwrites slots all the time.

#include "common/limits.hpp"
#include "common/test_guards.hpp"
#include "storage/slot_table.hpp"
#include "tests/verbs/rail_pair.hpp"
#include "tests/verbs/whole_path.hpp"

#include <deque>
#include <mutex>

namespace peercache::rdma::eviction_race_test {
namespace {

using namespace std::chrono_literals;

constexpr incarnation life{1, 1};
constexpr std::uint32_t page_bytes = 1024; // Pages are small, because the number of READs counts.
constexpr std::uint32_t slots = 256;
/// Number of different pages that readers ask for; the pool holds 5 % of them.
constexpr std::uint32_t working_set = 20 * slots;

/// Holds the bytes of every page of the working set.
class page_contents {
public:
  std::span<const std::byte> of(std::uint32_t page) const {
    return std::span(bytes_).subspan(std::size_t{page} * page_bytes, page_bytes);
  }
  static page_key key_of(std::uint32_t page) {
    page_key key{};
    std::memcpy(key.bytes.data(), &page, sizeof page);
    key.bytes[31] = 7;
    return key;
  }

private:
  const verbs::buffer bytes_ = verbs::random_bytes(std::size_t{working_set} * page_bytes, 1);
};

/// The pool's owner: gives up one slot after the other and fills it with another page, with the
/// stores of a real pool in their order (storage::slot_table). As with a client's set, some time
/// passes from a fill's first byte to its publication. Threads: only the owner's may call `evict`,
/// any may call `record_of`.
class evicting_owner {
public:
  struct record {
    std::uint32_t page = 0;
    generation gen;
  };

  evicting_owner(const readable_pool& pool, const page_contents& contents)
      : clients_(slots),
        table_({&pool.entry(slot_id{0}), slots}, clients_,
               {pool.page(slot_id{0}), std::size_t{slots} * limits::granule_bytes}),
        contents_(contents), records_(slots), in_pool_(working_set, false) {
    while (record_of(slots - 1).gen.value == 0)
      evict();
  }

  void evict() {
    const auto page = absent_page();
    const slot_id slot{next_++ % slots};
    auto& old = records_[slot.value];
    if (old.gen.readable() && old.gen.value != 0) {
      table_.give_up(slot);
      in_pool_[old.page] = false;
    }
    table_.begin_fill(slot);
    const auto bytes = contents_.of(page);
    std::copy(bytes.begin(), bytes.end(), table_.bytes(slot, page_bytes).begin());
    filling_.push_back({slot, page});
    if (filling_.size() > slots / 16)
      publish_oldest();
  }

  record record_of(std::uint32_t slot) const {
    const std::lock_guard lock(mutex_);
    return records_[slot];
  }

private:
  struct filling {
    slot_id slot;
    std::uint32_t page;
  };

  std::uint32_t absent_page() {
    std::uint32_t page = 0;
    do
      page = random_() % working_set;
    while (in_pool_[page]);
    in_pool_[page] = true;
    return page;
  }

  /// Publishes the page whose fill is the oldest. Only now replaces the slot's record, which was
  /// that of the previous page, as in a directory that hears of evictions late.
  void publish_oldest() {
    const auto [slot, page] = filling_.front();
    filling_.pop_front();
    const auto gen = table_.publish(slot, page_contents::key_of(page), page_bytes, 0);
    const std::lock_guard lock(mutex_);
    records_[slot.value] = {page, gen};
  }

  std::vector<storage::client_entry> clients_;
  storage::slot_table table_;
  const page_contents& contents_;
  mutable std::mutex mutex_; ///< Guards `records_`, which readers copy from.
  std::vector<record> records_;
  std::vector<bool> in_pool_;
  std::deque<filling> filling_;
  std::uint32_t next_ = 0;
  std::minstd_rand random_{1};
};

class eviction_race : public testing::Test {
protected:
  struct outcome {
    std::uint64_t reads = 0, hits = 0, overwritten = 0, failed = 0, wrong = 0;
  };

  eviction_race() {
    owner_thread_ = std::thread([this] {
      // Evicts in step with the READs that are posted, so that evictions happen in the middle of
      // batches.
      for (std::uint64_t evictions = 0; !stop_;)
        if (evictions < rail_.counters().payload_reads / reads_per_eviction)
          ++evictions, owner_.evict();
        else
          std::this_thread::yield();
    });
  }
  ~eviction_race() override {
    stop_ = true;
    owner_thread_.join();
  }

  /// Reads batches of pages that were in the pool a moment ago, until `reads` READs were made, or
  /// `wrong` hits had wrong bytes.
  outcome run(std::uint64_t reads, std::uint64_t wrong = ~std::uint64_t{0}) {
    outcome sum;
    const registered memory(*what_, {&rail_});
    while (sum.reads < reads && sum.wrong < wrong && !HasFailure())
      add(sum, read_batch_of_now());
    std::cout << sum.reads << " READs, " << sum.hits << " hits, " << sum.overwritten
              << " overwritten meanwhile, " << sum.failed << " failed, " << sum.wrong
              << " wrong pages among the hits\n";
    return sum;
  }

private:
  static constexpr std::uint32_t batch_pages = 250;
  static constexpr std::uint32_t reads_per_eviction = 4;

  std::vector<std::uint32_t> read_batch_of_now() {
    std::vector<std::uint32_t> pages;
    for (auto& read : what_->batch.pages) {
      const slot_id slot{static_cast<std::uint32_t>(random_() % slots)};
      const auto record = owner_.record_of(slot.value);
      pages.push_back(record.page);
      read.key = page_contents::key_of(record.page);
      read.slot = slot;
      read.gen = record.gen;
      read.status = page_status::pending;
    }
    what_->batch.reset();
    what_->batch.peer = node_.endpoint();
    what_->batch.deadline = clock::now() + 60s;
    rail_.submit(what_->batch);
    what_->batch.wait();
    return pages;
  }

  void add(outcome& sum, const std::vector<std::uint32_t>& pages) {
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto status = what_->batch.pages[i].status;
      ++sum.reads;
      if (status == page_status::hit) {
        ++sum.hits;
        const auto want = contents_.of(pages[i]);
        sum.wrong += std::memcmp(what_->bytes_of(i).data(), want.data(), page_bytes) != 0 ? 1 : 0;
      } else if (status == page_status::stale || status == page_status::wrong_key) {
        ++sum.overwritten;
      } else {
        ++sum.failed;
      }
    }
  }

  /// Makes a batch with its memory; `run` sets the pages that it asks for before each read.
  static std::unique_ptr<test_batch> make_batch() {
    test_pool shape;
    auto made = std::make_unique<test_batch>(shape, batch_pages, page_bytes);
    for (auto& page : made->batch.pages)
      // Compares no checksum, so that only the generation can show that a page was overwritten.
      page.verify = false;
    return made;
  }

  const page_contents contents_;
  readable_pool memory_;
  evicting_owner owner_{memory_, contents_};
  serving_node node_{memory_.served(), life, {"rxe1"}};
  reading_rail rail_{"rxe0"};
  const std::unique_ptr<test_batch> what_ = make_batch();
  std::minstd_rand random_{2};
  std::atomic<bool> stop_{false};
  std::thread owner_thread_;
};

TEST_F(eviction_race, brings_no_wrong_byte) {
  const auto sum = run(100'000);
  EXPECT_EQ(sum.wrong, 0u);
  EXPECT_EQ(sum.failed, 0u);
  EXPECT_GT(sum.hits, sum.reads / 10);
  EXPECT_GT(sum.overwritten, sum.reads / 10);
}

TEST_F(eviction_race, without_the_generation_check_wrong_bytes_are_found) {
  const guard_switched_off off(guard::generation);
  EXPECT_GT(run(50'000, 10).wrong, 0u);
}

TEST_F(eviction_race, without_the_fence_this_device_cannot_show_wrong_bytes) {
  const guard_switched_off off(guard::fence);
  const auto sum = run(5000);
  EXPECT_EQ(sum.wrong, 0u) << "READs overtake each other here: this can be a test of the fence";
  std::cout << "rxe answers the READs of a queue pair one after the other, in the order of their "
               "packets, and takes what arrives out of order for lost: an entry is READ after the "
               "payloads before it, fence or not. That the fence matters is shown by fence_test in "
               "the pure ring, over a device that reorders.\n";
}

} // namespace
} // namespace peercache::rdma::eviction_race_test
