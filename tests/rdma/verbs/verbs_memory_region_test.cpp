#include "rdma/verbs/memory_region.hpp"

#include "tests/support/fake_verbs/fake_verbs.hpp"
#include "tests/verbs/rail_pair.hpp"

#include <cerrno>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace peercache::rdma::verbs::verbs_memory_region_test {
namespace {

using namespace peercache::tests;
using testing::AllOf;
using testing::HasSubstr;

class verbs_memory_region : public testing::Test {
protected:
  void open(fake_device setup) {
    fabric.add(std::move(setup));
    rail = must(device::open("mlx5_0", {}));
  }

  fake_fabric fabric;
  std::unique_ptr<device> rail;
  buffer memory = random_bytes(64 << 10, 1);
};

TEST_F(verbs_memory_region, asks_for_the_rights_of_its_use_and_no_other) {
  open(roce_device("mlx5_0", 1));
  const auto pool = must(memory_region::register_memory(*rail, memory, region_use::remote_read));
  const auto target = must(memory_region::register_memory(*rail, memory, region_use::local_write));
  const auto known = fabric.regions();
  ASSERT_EQ(known.size(), 2U);
  for (const fake_region& region : known) {
    const bool is_pool = region.remote_key == pool.remote_key();
    EXPECT_EQ(region.rights,
              is_pool ? unsigned{IBV_ACCESS_REMOTE_READ} : unsigned{IBV_ACCESS_LOCAL_WRITE});
    EXPECT_EQ(region.address, reinterpret_cast<std::uint64_t>(memory.data()));
    EXPECT_EQ(region.bytes, memory.size());
  }
  EXPECT_EQ(pool.address(), reinterpret_cast<std::uint64_t>(memory.data()));
  EXPECT_EQ(pool.bytes(), memory.size());
  EXPECT_NE(target.local_key(), pool.local_key());
}

TEST_F(verbs_memory_region, ends_with_the_object_and_moves_with_it) {
  open(roce_device("mlx5_0", 1));
  {
    auto first = must(memory_region::register_memory(*rail, memory, region_use::remote_read));
    const std::uint32_t key = first.remote_key();
    memory_region second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_EQ(second.remote_key(), key);
    EXPECT_EQ(fabric.objects().regions, 1U);
    second = memory_region();
    EXPECT_EQ(fabric.objects().regions, 0U);
  }
  EXPECT_EQ(fabric.counts("mlx5_0").registrations, 1U);
}

TEST_F(verbs_memory_region, may_be_made_and_ended_by_any_thread) {
  open(roce_device("mlx5_0", 1));
  std::thread([&] {
    EXPECT_TRUE(memory_region::register_memory(*rail, memory, region_use::remote_read));
  }).join();
  EXPECT_EQ(fabric.objects().regions, 0U);
}

TEST_F(verbs_memory_region, refuses_what_is_empty_or_more_than_the_device_takes) {
  fake_device setup = roce_device("mlx5_0", 1);
  setup.region_bytes_max = 4096;
  open(setup);
  const auto empty = memory_region::register_memory(*rail, {}, region_use::remote_read);
  EXPECT_EQ(empty.error().code, errc::invalid_argument);
  const auto large = memory_region::register_memory(*rail, memory, region_use::remote_read);
  EXPECT_EQ(large.error().code, errc::invalid_argument);
  EXPECT_THAT(large.error().message, HasSubstr("in pieces"));
  EXPECT_EQ(fabric.counts("mlx5_0").registrations, 0U);
}

TEST_F(verbs_memory_region, short_of_locked_memory_says_limit_need_and_cure) {
  const std::string advice = memlock_advice(64 << 20, 8 << 20);
  EXPECT_THAT(advice, AllOf(HasSubstr("RLIMIT_MEMLOCK) is 8.0 MiB"), HasSubstr("64.0 MiB"),
                            HasSubstr("ulimit -l unlimited"), HasSubstr("LimitMEMLOCK=infinity"),
                            HasSubstr("/etc/security/limits.conf")));
  EXPECT_THAT(memlock_advice(64 << 20, RLIM_INFINITY), HasSubstr("not limited"));
}

TEST_F(verbs_memory_region, a_registration_that_is_short_of_locked_memory_gives_that_advice) {
  fake_device setup = roce_device("mlx5_0", 1);
  setup.memlock_bytes = memory.size() + 100;
  open(setup);
  const auto first = must(memory_region::register_memory(*rail, memory, region_use::remote_read));
  const auto refused = memory_region::register_memory(*rail, memory, region_use::remote_read);
  EXPECT_EQ(refused.error().code, errc::out_of_memory);
  EXPECT_THAT(
      refused.error().message,
      AllOf(HasSubstr("mlx5_0"), HasSubstr(memlock_advice(memory.size(), memlock_limit_bytes()))));
}

TEST_F(verbs_memory_region, memory_that_cannot_be_pinned_is_the_callers_fault) {
  open(roce_device("mlx5_0", 1));
  fabric.fail(fake_call::register_memory, EFAULT);
  const auto refused = memory_region::register_memory(*rail, memory, region_use::local_write);
  EXPECT_EQ(refused.error().code, errc::invalid_argument);
  EXPECT_THAT(refused.error().message, HasSubstr("cannot be pinned"));
}

TEST_F(verbs_memory_region, device_memory_is_refused_where_there_is_no_dmabuf) {
  open(roce_device("mlx5_0", 1));
  const auto refused =
      memory_region::register_dmabuf(*rail, 0, 0, 4096, 0x1000, region_use::local_write);
  EXPECT_EQ(refused.error().code, errc::incompatible);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("dmabuf"), HasSubstr("Linux 5.12")));
}

TEST_F(verbs_memory_region, a_descriptor_that_is_no_dmabuf_is_the_callers_fault) {
  fake_device setup = roce_device("mlx5_0", 1);
  setup.has_dmabuf = true;
  open(setup);
  const auto refused =
      memory_region::register_dmabuf(*rail, -1, 0, 4096, 0x1000, region_use::local_write);
  EXPECT_EQ(refused.error().code, errc::invalid_argument);
}

TEST_F(verbs_memory_region, windows_over_a_dmabuf_are_refused_with_the_remedy) {
  fake_device setup = roce_device("mlx5_0", 1);
  setup.has_dmabuf = true;
  open(setup);
  const int fd = ::memfd_create("gpu", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, 64 << 10), 0);
  EXPECT_EQ(::ibv_reg_dmabuf_mr(rail->domain(), 0, 4096, 0x1000, fd, IBV_ACCESS_MW_BIND), nullptr);
  EXPECT_EQ(errno, EINVAL) << "as the kernel";
  const auto refused =
      memory_region::register_dmabuf(*rail, fd, 0, 4096, 0x1000, region_use::windows);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::incompatible);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("dmabuf"), HasSubstr("rdma.windows = false")));
  ::close(fd);
}

/// Memory that counts as a device's; `file` stands for its dmabuf, where its driver exports one.
class addressed_memory final : public device_memory {
public:
  bool copy_out(std::byte*, const memory_rows&) noexcept override { return false; }
  bool copy_in(std::byte*, std::span<const std::byte>) noexcept override { return false; }
  std::optional<exported> export_dmabuf(std::span<std::byte>) override {
    ++exports;
    if (file < 0)
      return std::nullopt;
    return exported{net::unique_fd(::dup(file)), 4096};
  }
  int exports = 0;
  int file = -1;

protected:
  bool is_of_device(const std::byte*) const override { return true; }
};

TEST_F(verbs_memory_region, device_memory_has_windows_by_its_address_or_the_reason_why_not) {
  open(roce_device("mlx5_0", 1));
  addressed_memory gpu;
  ASSERT_TRUE(gpu.add(memory));
  const auto made = must(memory_region::register_with(*rail, memory, &gpu, region_use::windows));
  EXPECT_NE(made.windows(), nullptr);
  EXPECT_EQ(gpu.exports, 0);
  fabric.fail(fake_call::register_memory, EFAULT);
  const auto refused = memory_region::register_with(*rail, memory, &gpu, region_use::windows);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::incompatible);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr("rdma.windows = false"), HasSubstr("cannot be pinned")));
}

/// Whether the memory is a GPU's, its driver exports a dmabuf of it, and the NIC can register one;
/// and what must follow: whether the memory is registered by its dmabuf or by its address.
struct dmabuf_case {
  bool of_device, exported, has_dmabuf;
  bool by_dmabuf;
  int exports; ///< How often the driver is asked for a dmabuf.
};

TEST_F(verbs_memory_region, device_memory_is_registered_by_its_dmabuf_where_there_is_one) {
  fake_device with_dmabuf = roce_device("with_dmabuf", 1);
  with_dmabuf.has_dmabuf = true;
  fabric.add(with_dmabuf);
  fabric.add(roce_device("without", 2));
  const net::unique_fd file(::memfd_create("gpu", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  for (const auto& [of_device, exported, has_dmabuf, by_dmabuf, exports] :
       {dmabuf_case{true, true, true, true, 1}, dmabuf_case{true, true, false, false, 1},
        dmabuf_case{true, false, true, false, 1}, dmabuf_case{false, true, true, false, 0}}) {
    SCOPED_TRACE(testing::Message() << of_device << exported << has_dmabuf);
    const auto on = must(device::open(has_dmabuf ? "with_dmabuf" : "without", {}));
    addressed_memory gpu;
    gpu.file = exported ? file.get() : -1;
    if (of_device)
      gpu.add(memory);
    const auto made =
        must(memory_region::register_with(*on, memory, &gpu, region_use::remote_read));
    EXPECT_EQ(made.address(), reinterpret_cast<std::uint64_t>(memory.data()));
    ASSERT_EQ(fabric.regions().size(), 1u);
    EXPECT_EQ(fabric.regions()[0].by_dmabuf, by_dmabuf);
    EXPECT_EQ(gpu.exports, exports);
  }
}

TEST_F(verbs_memory_region, a_dmabuf_that_is_refused_for_another_reason_is_not_tried_by_address) {
  fake_device setup = roce_device("mlx5_0", 1);
  setup.has_dmabuf = true;
  setup.memlock_bytes = 100;
  open(setup);
  const net::unique_fd file(::memfd_create("gpu", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 1 << 20), 0);
  addressed_memory gpu;
  gpu.file = file.get();
  gpu.add(memory);
  const auto refused = memory_region::register_with(*rail, memory, &gpu, region_use::remote_read);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::out_of_memory);
  EXPECT_EQ(fabric.counts("mlx5_0").registrations, 0u);
}

/// The answer of the kernel to the end of a region or a window that clients could READ.
class ends_of_keys : public verbs_memory_region, public testing::WithParamInterface<int> {
protected:
  void end_with_windows(fake_call what) {
    open(roce_device("mlx5_0", 1));
    auto served = must(memory_region::register_memory(*rail, memory, region_use::windows));
    rail_pair pair(*rail, *rail);
    const auto window = served.windows()->bind(pair.server.pair, 1);
    ASSERT_TRUE(window) << to_string(window.error());
    fabric.fail(what, GetParam());
    served = memory_region();
  }
};
class keys_that_stay : public ends_of_keys {};
class keys_of_gone_devices : public ends_of_keys {};

TEST_P(keys_that_stay, end_the_process) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(end_with_windows(fake_call::end_region), "is_revoked");
  EXPECT_DEATH(end_with_windows(fake_call::end_window), "is_revoked");
}

TEST_P(keys_of_gone_devices, are_gone_with_them) {
  end_with_windows(fake_call::end_region);
}

// Drivers answer EBUSY or EINVAL for a region that has a window left; other errors mean as much.
INSTANTIATE_TEST_SUITE_P(error, keys_that_stay, testing::Values(EBUSY, EINVAL, ENOMEM, EFAULT));
INSTANTIATE_TEST_SUITE_P(error, keys_of_gone_devices, testing::Values(EIO, ENODEV));

TEST_F(verbs_memory_region, reads_arrive_in_device_memory_at_the_address_that_was_given) {
  fake_device setup = roce_device("mlx5_0", 1);
  setup.has_dmabuf = true;
  open(setup);
  const int fd = ::memfd_create("gpu", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, 64 << 10), 0);
  {
    constexpr std::uint64_t gpu_address = 0x7f0000000000, offset_bytes = 4096;
    const auto target = must(memory_region::register_dmabuf(*rail, fd, offset_bytes, 8192,
                                                            gpu_address, region_use::local_write));
    EXPECT_EQ(target.address(), gpu_address);
    const auto pool = must(memory_region::register_memory(*rail, memory, region_use::remote_read));
    rail_pair pair(*rail, *rail);
    const ibv_sge piece{gpu_address + 100, 1000, target.local_key()};
    EXPECT_EQ(pair.run(IBV_WR_RDMA_READ, {&piece, 1}, pool.address() + 50, pool.remote_key()),
              IBV_WC_SUCCESS);
    buffer seen(1000);
    ASSERT_EQ(::pread(fd, seen.data(), seen.size(), offset_bytes + 100), 1000);
    EXPECT_TRUE(std::equal(seen.begin(), seen.end(), memory.begin() + 50));
  }
  ::close(fd);
}

} // namespace
} // namespace peercache::rdma::verbs::verbs_memory_region_test
