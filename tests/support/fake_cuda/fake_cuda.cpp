#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

/// A libcuda.so.1 for machines without a GPU: the functions that rdma/cuda_memory.cpp looks up,
/// over memory that only these functions can reach, and a few `fake_cuda_*` for tests. A thread
/// that has not entered the device's context is refused, as the driver refuses it.
namespace {

struct allocation {
  std::size_t bytes = 0;
  std::byte* alias = nullptr;
  int file = -1;
};

std::mutex lock;
std::map<std::uint64_t, allocation> allocations;
std::atomic<bool> copies_fail{false};
std::atomic<std::uint64_t> copies{0};
thread_local const void* current_context = nullptr;
const int the_context = 0;

constexpr int success = 0, invalid_value = 1, invalid_context = 201;

/// Returns where the host can read and write the bytes of this device memory; null for an address
/// that is not device memory.
std::byte* alias_of(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard hold(lock);
  auto found = allocations.upper_bound(address);
  if (found == allocations.begin())
    return nullptr;
  --found;
  const auto offset = address - found->first;
  return offset + bytes <= found->second.bytes ? found->second.alias + offset : nullptr;
}

int may_copy() {
  if (current_context != &the_context)
    return invalid_context;
  ++copies;
  return copies_fail ? invalid_value : success;
}

} // namespace

extern "C" {

/// Allocates fake device memory. At the returned address the processor may neither read nor write.
void* fake_cuda_allocate(std::size_t bytes) {
  allocation made;
  made.bytes = bytes;
  made.file = ::memfd_create("fake-gpu", MFD_CLOEXEC);
  if (made.file < 0 || ::ftruncate(made.file, static_cast<off_t>(bytes)) != 0)
    return nullptr;
  made.alias = static_cast<std::byte*>(
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.file, 0));
  void* const device = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const std::lock_guard hold(lock);
  allocations[reinterpret_cast<std::uintptr_t>(device)] = made;
  return device;
}

void fake_cuda_free(void* device) {
  const std::lock_guard hold(lock);
  const auto found = allocations.find(reinterpret_cast<std::uintptr_t>(device));
  ::munmap(found->second.alias, found->second.bytes);
  ::munmap(device, found->second.bytes);
  ::close(found->second.file);
  allocations.erase(found);
}

/// Returns the address at which a test can read and write the bytes of this device memory.
void* fake_cuda_bytes(void* device) {
  return alias_of(reinterpret_cast<std::uintptr_t>(device), 0);
}

/// Makes all later copies of the fake driver fail (1), or succeed again (0).
void fake_cuda_fail_copies(int fail) {
  copies_fail = fail != 0;
}

/// Returns how many copies the fake driver has made since the process began.
std::uint64_t fake_cuda_copies() {
  return copies;
}

int cuInit(unsigned) {
  return success;
}

int cuPointerGetAttribute(void* data, int attribute, std::uint64_t address) {
  if (alias_of(address, 1) == nullptr)
    return invalid_value;
  // Attribute 2 is the memory's type, where 2 means "device"; otherwise the ordinal of the device
  // is asked for, which is 0.
  const int answer = attribute == 2 ? 2 : 0;
  std::memcpy(data, &answer, sizeof answer);
  return success;
}

int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = const_cast<int*>(&the_context);
  return success;
}

int cuDevicePrimaryCtxRelease_v2(int) {
  return success;
}

int cuCtxGetCurrent(void** context) {
  *context = const_cast<void*>(current_context);
  return success;
}

int cuCtxSetCurrent(void* context) {
  current_context = context;
  return success;
}

int cuStreamCreate(void** stream, unsigned flags) {
  *stream = const_cast<int*>(&the_context);
  return flags == 1 ? success : invalid_value;
}

int cuStreamDestroy_v2(void*) {
  return success;
}

int cuStreamSynchronize(void*) {
  return success;
}

int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void*) {
  auto* const alias = alias_of(to, bytes);
  if (alias == nullptr)
    return invalid_value;
  if (const int refused = may_copy(); refused != success)
    return refused;
  std::memcpy(alias, from, bytes);
  return success;
}

struct copy_2d {
  std::size_t source_x, source_y;
  unsigned source_type;
  const void* source_host;
  std::uint64_t source_device;
  void* source_array;
  std::size_t source_pitch;
  std::size_t destination_x, destination_y;
  unsigned destination_type;
  void* destination_host;
  std::uint64_t destination_device;
  void* destination_array;
  std::size_t destination_pitch;
  std::size_t width, height;
};

int cuMemcpy2DAsync_v2(const void* wanted, void*) {
  const auto* copy = static_cast<const copy_2d*>(wanted);
  if (copy->source_type != 2 || copy->destination_type != 1 || copy->width > copy->source_pitch ||
      copy->width > copy->destination_pitch)
    return invalid_value;
  if (const int refused = may_copy(); refused != success)
    return refused;
  for (std::size_t row = 0; row < copy->height; ++row) {
    const auto* from = alias_of(copy->source_device + row * copy->source_pitch, copy->width);
    if (from == nullptr)
      return invalid_value;
    std::memcpy(static_cast<std::byte*>(copy->destination_host) + row * copy->destination_pitch,
                from, copy->width);
  }
  return success;
}

int cuMemGetHandleForAddressRange(void* handle, std::uint64_t address, std::size_t bytes, int type,
                                  unsigned long long) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (type != 1 || address % page != 0 || bytes % page != 0)
    return invalid_value;
  const std::lock_guard hold(lock);
  const auto found = allocations.upper_bound(address);
  if (found == allocations.begin())
    return invalid_value;
  const int file = ::dup(std::prev(found)->second.file);
  std::memcpy(handle, &file, sizeof file);
  return success;
}
}
