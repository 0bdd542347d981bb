#include "client/pool/commit_queue.hpp"

#include "common/limits.hpp"
#include "link/protocol/pool_wire.hpp"
#include "tests/client/small_pool.hpp"

#include <gtest/gtest.h>

namespace peercache::client {
namespace {

pending_commit job_of(std::uint32_t first_slot, std::size_t pages,
                      std::uint32_t next_bytes = 4096) {
  pending_commit job;
  for (std::size_t i = 0; i < pages; ++i) {
    link::filled_slot filled;
    filled.slot = slot_id{first_slot + static_cast<std::uint32_t>(i)};
    link::append_record(job.filled, filled);
  }
  link::append_record(job.next_lengths, next_bytes);
  job.bytes = pages;
  return job;
}

std::uint32_t first_slot(const pending_commit& job) {
  return link::record_at<link::filled_slot>(job.filled, 0).slot.value;
}

TEST(commit_queue, wakes_the_actor_once_until_it_finds_nothing) {
  commit_queue queue;
  EXPECT_TRUE(queue.push(job_of(1, 1)));
  EXPECT_FALSE(queue.push(job_of(2, 1)));
  EXPECT_NE(queue.next(), nullptr);
  EXPECT_FALSE(queue.push(job_of(3, 1))) << "a commit is on its way";
  EXPECT_NE(queue.next(), nullptr);
  EXPECT_EQ(queue.next(), nullptr);
  EXPECT_TRUE(queue.push(job_of(4, 1)));
}

TEST(commit_queue, wakes_the_actor_by_the_next_set_where_the_first_could_not) {
  commit_queue queue;
  EXPECT_TRUE(queue.push(job_of(1, 1)));
  queue.not_woken();
  EXPECT_TRUE(queue.push(job_of(2, 1)));
  EXPECT_EQ(queue.next()->sets, 2u);
}

TEST(commit_queue, joins_what_waits_with_the_later_set_in_front) {
  commit_queue queue;
  queue.push(job_of(10, 2));
  queue.push(job_of(20, 3));
  auto joined = queue.next();
  EXPECT_EQ(first_slot(*joined), 20u);
  EXPECT_EQ(joined->filled.size(), 5 * sizeof(link::filled_slot));
  EXPECT_EQ(joined->next_lengths.size(), 2 * sizeof(std::uint32_t));
  EXPECT_EQ(joined->sets, 2u);
  EXPECT_EQ(joined->bytes, 5u);
  EXPECT_EQ(queue.next(), nullptr);
}

TEST(commit_queue, sends_sets_of_another_page_size_on_their_own) {
  commit_queue queue;
  queue.push(job_of(1, 1, 4096));
  queue.push(job_of(2, 1, 8192));
  EXPECT_EQ(first_slot(*queue.next()), 1u);
  EXPECT_EQ(first_slot(*queue.next()), 2u);
}

TEST(commit_queue, keeps_a_message_within_the_limit_of_a_batch) {
  commit_queue queue;
  queue.push(job_of(1, limits::batch_pages_max));
  queue.push(job_of(2, 1));
  EXPECT_EQ(queue.next()->sets, 1u);
  EXPECT_EQ(queue.next()->sets, 1u);
}

TEST(commit_queue, sends_sets_of_another_duplicate_mode_on_their_own) {
  commit_queue queue;
  auto skipping = job_of(1, 1);
  auto storing = job_of(2, 1);
  storing.mode = link::commit_mode::store;
  queue.push(skipping);
  queue.push(storing);
  EXPECT_EQ(queue.next()->mode, link::commit_mode::skip);
  EXPECT_EQ(queue.next()->mode, link::commit_mode::store);
}

TEST(commit_queue, sends_sets_of_another_pool_on_their_own) {
  const auto one = std::make_shared<own_pool>(make_small_pool());
  const auto other = std::make_shared<own_pool>(make_small_pool());
  commit_queue queue;
  for (const auto& pool : {one, other, one}) {
    auto job = job_of(1, 1);
    job.pool = pool;
    queue.push(std::move(job));
  }
  for (const auto& pool : {one, other, one}) // Order matters: the last set of a key counts.
    EXPECT_EQ(queue.next()->pool, pool);
  EXPECT_EQ(queue.next(), nullptr);
}

} // namespace
} // namespace peercache::client
