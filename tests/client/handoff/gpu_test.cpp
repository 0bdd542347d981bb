#include "tests/client/handoff/fake_gpu.hpp"

#include "rdma/cuda_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace peercache::client::test {
namespace {

using handoff::room_state;

/// Returns a worker's layout with one page, whose K and V lie in `k` and `v`.
handoff::kv_layout layout_on(const handoff::test::tensor_memory& k,
                             const handoff::test::tensor_memory& v, const worker_memory& with_aux) {
  auto layout = with_aux.layout();
  layout.buffers[0].address = k.address;
  layout.buffers[1].address = v.address;
  for (auto& buffer : layout.buffers)
    buffer.length_bytes = k.bytes.size();
  return layout;
}

TEST(gpu, is_none_where_the_driver_is_not_there) {
  EXPECT_EQ(rdma::find_cuda_memory("libpeercache_no_such_driver.so.1"), nullptr);
}

TEST(gpu, holds_what_was_added_and_is_its_own) {
  const auto memory = rdma::find_cuda_memory(PEERCACHE_FAKE_CUDA);
  ASSERT_NE(memory, nullptr);
  auto device = fake_gpu_memory(8192);
  auto* const begin = reinterpret_cast<std::byte*>(device.address);
  std::vector<std::byte> host(64);
  EXPECT_FALSE(memory->add(host));
  EXPECT_FALSE(memory->holds(begin));
  EXPECT_TRUE(memory->add({begin, 8192}));
  EXPECT_TRUE(memory->holds(begin));
  EXPECT_TRUE(memory->holds(begin + 8191));
  EXPECT_FALSE(memory->holds(begin + 8192));
  EXPECT_FALSE(memory->holds(host.data()));
  memory->remove(begin);
  EXPECT_FALSE(memory->holds(begin));
}

TEST(gpu, exports_the_pages_around_its_memory) {
  const auto memory = rdma::find_cuda_memory(PEERCACHE_FAKE_CUDA);
  auto device = fake_gpu_memory(16384);
  device.bytes[5000] = std::byte{0x5a};
  const auto exported =
      memory->export_dmabuf({reinterpret_cast<std::byte*>(device.address) + 5000, 100});
  ASSERT_TRUE(exported);
  EXPECT_EQ(exported->offset_bytes, 5000u % static_cast<unsigned>(::sysconf(_SC_PAGESIZE)));
  std::byte read{};
  EXPECT_EQ(::pread(exported->dmabuf.get(), &read, 1, 5000), 1);
  EXPECT_EQ(read, std::byte{0x5a});
}

TEST(gpu, that_fails_to_copy_fails_the_room_and_not_the_worker) {
  auto from_k = fake_gpu_memory(4096), from_v = fake_gpu_memory(4096);
  auto to_k = fake_gpu_memory(4096), to_v = fake_gpu_memory(4096);
  worker_pair pair;
  pair.prefill =
      *prefill_worker::start(gpu_options(), layout_on(from_k, from_v, pair.prefill_memory));
  pair.decode = *decode_worker::start(gpu_options(), layout_on(to_k, to_v, pair.decode_memory));
  from_k.bytes[77] = std::byte{0x77};
  for (const bool fails : {true, false}) {
    gpu().fail_copies(fails ? 1 : 0);
    pair.meet(1, {0});
    ASSERT_TRUE(pair.prefill->init(pair.sending->id, 1));
    ASSERT_TRUE(pair.prefill->send(pair.sending->id, std::vector<std::uint32_t>{0}, true));
    const auto end = fails ? room_state::failed : room_state::success;
    ASSERT_TRUE(eventually([&] { return pair.receiving->poll() == end; }));
    EXPECT_EQ(to_k.bytes[77], fails ? std::byte{0} : std::byte{0x77});
    pair.part();
  }
  pair.prefill.reset();
  pair.decode.reset();
}

} // namespace
} // namespace peercache::client::test
