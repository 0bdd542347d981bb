#include "rdma/cuda_memory.hpp"

#include "common/log.hpp"

#include <dlfcn.h>
#include <map>
#include <mutex>
#include <unistd.h>

namespace peercache::rdma {
namespace {

// Types and numbers of the driver API, as its binary interface has them.
using cu_result = int;
using cu_pointer = std::uint64_t;
using cu_context = void*;
using cu_stream = void*;
constexpr cu_result cu_success = 0;
constexpr unsigned cu_memory_type_host = 1;
constexpr unsigned cu_memory_type_device = 2;
constexpr int cu_attribute_memory_type = 2;
constexpr int cu_attribute_device_ordinal = 9;
constexpr unsigned cu_stream_non_blocking = 1;
constexpr int cu_handle_dmabuf = 1;

struct cu_copy_2d {
  std::size_t source_x, source_y;
  unsigned source_type;
  const void* source_host;
  cu_pointer source_device;
  void* source_array;
  std::size_t source_pitch;
  std::size_t destination_x, destination_y;
  unsigned destination_type;
  void* destination_host;
  cu_pointer destination_device;
  void* destination_array;
  std::size_t destination_pitch;
  std::size_t width_bytes, height;
};
static_assert(sizeof(cu_copy_2d) == 128);

struct cuda_driver {
  cu_result (*init)(unsigned);
  cu_result (*pointer_attribute)(void*, int, cu_pointer);
  cu_result (*retain_context)(cu_context*, int);
  cu_result (*release_context)(int);
  cu_result (*get_context)(cu_context*);
  cu_result (*set_context)(cu_context);
  cu_result (*make_stream)(cu_stream*, unsigned);
  cu_result (*end_stream)(cu_stream);
  cu_result (*synchronize)(cu_stream);
  cu_result (*copy_in)(cu_pointer, const void*, std::size_t, cu_stream);
  cu_result (*copy_rows)(const void* cu_copy_2d, cu_stream);
  /// Function that exports a dmabuf; null with drivers that have none.
  cu_result (*export_range)(void*, cu_pointer, std::size_t, int, unsigned long long);
};

template <class Function>
bool load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool load_all(void* library, cuda_driver& driver) {
  load(library, "cuMemGetHandleForAddressRange", driver.export_range);
  return load(library, "cuInit", driver.init) &&
         load(library, "cuPointerGetAttribute", driver.pointer_attribute) &&
         load(library, "cuDevicePrimaryCtxRetain", driver.retain_context) &&
         load(library, "cuDevicePrimaryCtxRelease_v2", driver.release_context) &&
         load(library, "cuCtxGetCurrent", driver.get_context) &&
         load(library, "cuCtxSetCurrent", driver.set_context) &&
         load(library, "cuStreamCreate", driver.make_stream) &&
         load(library, "cuStreamDestroy_v2", driver.end_stream) &&
         load(library, "cuStreamSynchronize", driver.synchronize) &&
         load(library, "cuMemcpyHtoDAsync_v2", driver.copy_in) &&
         load(library, "cuMemcpy2DAsync_v2", driver.copy_rows);
}

cu_pointer pointer_to(const std::byte* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

class cuda_memory final : public device_memory {
public:
  explicit cuda_memory(const cuda_driver& driver) : driver_(driver) {}
  ~cuda_memory() override {
    for (auto& [ordinal, device] : devices_) {
      driver_.end_stream(device.stream);
      driver_.release_context(ordinal);
    }
  }

  bool copy_out(std::byte* host, const memory_rows& rows) noexcept override {
    cu_copy_2d copy{};
    copy.source_type = cu_memory_type_device;
    copy.source_device = rows.address;
    copy.source_pitch = rows.contiguous() ? rows.row_bytes : rows.stride_bytes;
    copy.destination_type = cu_memory_type_host;
    copy.destination_host = host;
    copy.destination_pitch = rows.row_bytes;
    copy.width_bytes = rows.row_bytes;
    copy.height = rows.rows;
    const auto stream = enter(rows.begin_of(0));
    return stream && driver_.copy_rows(&copy, *stream) == cu_success &&
           driver_.synchronize(*stream) == cu_success;
  }

  bool copy_in(std::byte* device, std::span<const std::byte> host) noexcept override {
    const auto stream = enter(device);
    return stream &&
           driver_.copy_in(pointer_to(device), host.data(), host.size(), *stream) == cu_success &&
           driver_.synchronize(*stream) == cu_success;
  }

  std::optional<exported> export_dmabuf(std::span<std::byte> memory) override {
    // The engine's own thread calls this, so its CUDA context is restored at the end.
    cu_context before = nullptr;
    driver_.get_context(&before);
    auto made = export_from_context(memory);
    driver_.set_context(before);
    return made;
  }

private:
  std::optional<exported> export_from_context(std::span<std::byte> memory) {
    if (driver_.export_range == nullptr || !enter(memory.data()))
      return std::nullopt;
    // The driver exports whole pages of the host.
    const auto page = static_cast<cu_pointer>(::sysconf(_SC_PAGESIZE));
    const auto begin = pointer_to(memory.data()) / page * page;
    const auto end = (pointer_to(memory.data()) + memory.size() + page - 1) / page * page;
    int descriptor = -1;
    if (driver_.export_range(&descriptor, begin, end - begin, cu_handle_dmabuf, 0) != cu_success)
      return std::nullopt;
    return exported{net::unique_fd(descriptor), pointer_to(memory.data()) - begin};
  }

  struct device_stream {
    cu_context context = nullptr;
    cu_stream stream = nullptr;
  };

  bool is_of_device(const std::byte* address) const override {
    unsigned type = 0;
    return driver_.pointer_attribute(&type, cu_attribute_memory_type, pointer_to(address)) ==
               cu_success &&
           type == cu_memory_type_device;
  }

  /// Makes the context of the device that has the memory current in the calling thread; returns the
  /// device's stream.
  std::optional<cu_stream> enter(const std::byte* address) noexcept {
    int ordinal = 0;
    if (driver_.pointer_attribute(&ordinal, cu_attribute_device_ordinal, pointer_to(address)) !=
        cu_success)
      return std::nullopt;
    const std::lock_guard hold(devices_lock_);
    const auto known = devices_.find(ordinal);
    if (known != devices_.end()) {
      if (driver_.set_context(known->second.context) != cu_success)
        return std::nullopt;
      return known->second.stream;
    }
    device_stream made;
    if (driver_.retain_context(&made.context, ordinal) != cu_success)
      return std::nullopt;
    if (driver_.set_context(made.context) != cu_success ||
        driver_.make_stream(&made.stream, cu_stream_non_blocking) != cu_success) {
      driver_.release_context(ordinal);
      return std::nullopt;
    }
    devices_.emplace(ordinal, made);
    return made.stream;
  }

  const cuda_driver driver_;
  std::mutex devices_lock_;
  /// Streams by the device's ordinal; guarded by `devices_lock_`.
  std::map<int, device_stream> devices_;
};

} // namespace

std::shared_ptr<device_memory> find_cuda_memory(const char* library) {
  // The library is never closed: the engine uses the driver as well, and the driver has threads of
  // its own.
  auto* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return nullptr;
  cuda_driver driver{};
  if (!load_all(handle, driver)) {
    log::warn("{} lacks functions that GPU memory needs; it is not used", library);
    return nullptr;
  }
  if (driver.init(0) != cu_success)
    return nullptr;
  return std::make_shared<cuda_memory>(driver);
}

} // namespace peercache::rdma
