#include "tests/client/handoff/fake_gpu.hpp"

#include "rdma/cuda_memory.hpp"

#include <dlfcn.h>

namespace peercache::client::test {
namespace {

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

fake_gpu load_gpu() {
  void* const library = ::dlopen(PEERCACHE_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  fake_gpu loaded{};
  load(library, "fake_cuda_allocate", loaded.allocate);
  load(library, "fake_cuda_free", loaded.release);
  load(library, "fake_cuda_bytes", loaded.bytes);
  load(library, "fake_cuda_fail_copies", loaded.fail_copies);
  load(library, "fake_cuda_copies", loaded.copies);
  return loaded;
}

} // namespace

const fake_gpu& gpu() {
  static const fake_gpu loaded = load_gpu();
  return loaded;
}

handoff::test::tensor_memory fake_gpu_memory(std::size_t bytes) {
  void* const device = gpu().allocate(bytes);
  return {{static_cast<std::byte*>(gpu().bytes(device)), bytes},
          reinterpret_cast<std::uintptr_t>(device),
          {device, gpu().release}};
}

worker_options gpu_options() {
  auto options = tcp_options();
  options.gpu = rdma::find_cuda_memory(PEERCACHE_FAKE_CUDA);
  return options;
}

} // namespace peercache::client::test
