#include "directory/shard_object.hpp"

#include "directory/shard.hpp"

#include <array>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace peercache::directory::shard_object_test {
namespace {

constexpr incarnation alice{1, 1};

page_key key(std::size_t number) {
  return key_space{}.key_of(std::to_string(number));
}

page_location location(std::uint64_t gen) {
  return {.node = {1}, .holder = alice, .gen = {gen}, .length_bytes = 64};
}

/// A node's shard in a shared memory object, under a name of this process.
class shard_object_test : public testing::Test {
protected:
  static constexpr std::size_t records = 100'000;
  const std::string prefix = "peercache-test-" + std::to_string(::getpid());
  const std::string pool = "/" + prefix + "-node-0123";

  result<shard_object> create() {
    return shard_object::create(pool, shard::units_for(records), {});
  }
  static std::optional<std::size_t> found(const attached_shard& in, std::size_t which) {
    auto search = in.reader();
    page_location out;
    return search.begin() ? search.find(key(which), {&out, 1}) : std::nullopt;
  }
};

TEST_F(shard_object_test, another_process_finds_what_the_node_records) {
  auto object = create();
  ASSERT_TRUE(object) << to_string(object.error());
  shard s(records, object->file());
  auto attached = attached_shard::attach(pool, {});
  ASSERT_TRUE(attached) << to_string(attached.error());
  s.set_members(std::array{alice});
  EXPECT_EQ(found(**attached, 1), 0u);
  // More records than a first piece of memory has room for: index and memory grow.
  for (std::size_t i = 0; i < 20'000; ++i)
    ASSERT_EQ(s.publish(key(i), location(2), publish_mode::always), publish_outcome::accepted);
  for (std::size_t i = 0; i < 20'000; i += 97)
    ASSERT_EQ(found(**attached, i), 1u) << i;
  EXPECT_EQ(found(**attached, 30'000), 0u);
  s.withdraw(key(97), alice, {2});
  EXPECT_EQ(found(**attached, 97), 0u);
}

TEST_F(shard_object_test, what_does_not_fit_the_file_system_is_not_read) {
  // A file that is sealed against growing is as one on a file system that is full.
  const int file = ::memfd_create("full", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, piece_units * shard_unit_bytes), 0);
  ASSERT_EQ(::fcntl(file, F_ADD_SEALS, F_SEAL_GROW), 0);
  shard s(records, file);
  s.set_members(std::array{alice});
  for (std::size_t i = 0; i < 20'000; ++i)
    ASSERT_EQ(s.publish(key(i), location(2), publish_mode::always), publish_outcome::accepted);
  EXPECT_EQ(s.memory().shared_units(), piece_units);
  page_location out;
  EXPECT_EQ(s.lookup(key(15'000), {&out, 1}), 1u) << "the node itself finds all";
  auto* const base =
      ::mmap(nullptr, piece_units * shard_unit_bytes, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(base, MAP_FAILED);
  shard_search search(attached_units(static_cast<const shard_unit*>(base)));
  EXPECT_FALSE(search.begin()) << "the index is in memory that others do not have";
  ::munmap(base, piece_units * shard_unit_bytes);
  ::close(file);
}

TEST_F(shard_object_test, an_object_without_memory_is_not_mapped) {
  const auto object = create();
  ASSERT_TRUE(object);
  const auto attached = attached_shard::attach(pool, {});
  ASSERT_FALSE(attached) << "a read of it might find no memory, and end the process";
  EXPECT_EQ(attached.error().code, errc::not_found);
}

TEST_F(shard_object_test, who_has_mapped_the_shard_of_a_dead_node_finds_none) {
  std::unique_ptr<const attached_shard> mapped;
  std::string left;
  {
    auto object = create();
    ASSERT_TRUE(object);
    shard s(records, object->file());
    s.set_members(std::array{alice});
    s.publish(key(1), location(2), publish_mode::always);
    mapped = std::move(*attached_shard::attach(pool, {}));
    EXPECT_EQ(found(*mapped, 1), 1u);
    // A second name stays when the node unlinks the first one, as for a node that was killed.
    left = "/dev/shm/" + prefix + "-left.shard";
    ASSERT_EQ(::link(("/dev/shm" + object->name()).c_str(), left.c_str()), 0);
  }
  EXPECT_EQ(shard_object::remove_leftovers(prefix), 1u);
  EXPECT_FALSE(mapped->reader().begin());
}

TEST_F(shard_object_test, goes_with_its_node_and_leftovers_go_with_the_next_one) {
  const auto path = "/dev/shm" + shard_object::name_of(pool);
  {
    auto object = create();
    ASSERT_TRUE(object);
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_EQ(shard_object::remove_leftovers(prefix), 0u) << "its node lives";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  const int left = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_GE(left, 0);
  ASSERT_EQ(::ftruncate(left, 4096), 0);
  ::close(left);
  EXPECT_EQ(shard_object::remove_leftovers(prefix + "-other"), 0u);
  EXPECT_EQ(shard_object::remove_leftovers(prefix), 1u);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(shard_object_test, others_may_not_map_it) {
  auto object = create();
  ASSERT_TRUE(object);
  const shard s(records, object->file());
  ASSERT_EQ(::fchmod(object->file(), 0666), 0);
  const auto attached = attached_shard::attach(pool, {});
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, errc::refused);
}

TEST_F(shard_object_test, has_a_posix_name_for_pools_of_huge_pages_too) {
  EXPECT_EQ(shard_object::name_of("/dev/hugepages/peercache-a-01"), "/peercache-a-01.shard");
  EXPECT_EQ(shard_object::name_of("/peercache-a-01"), "/peercache-a-01.shard");
}

} // namespace
} // namespace peercache::directory::shard_object_test
