#include "rdma/verbs/memory_region.hpp"

#include "common/assert.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sys/resource.h>

namespace peercache::rdma::verbs {

namespace {

int rights_of(region_use use) noexcept {
  switch (use) {
  case region_use::remote_read:
    return IBV_ACCESS_REMOTE_READ;
  case region_use::windows:
    return IBV_ACCESS_MW_BIND;
  default:
    return IBV_ACCESS_LOCAL_WRITE;
  }
}

std::string mebibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

error cannot_register(const device& on, std::uint64_t bytes, int number) {
  const std::string what = "registering " + mebibytes(bytes) + " with " + on.port().device + ": ";
  if (number == ENOMEM || number == EPERM)
    return {errc::out_of_memory, what + memlock_advice(bytes, memlock_limit_bytes())};
  if (number == EFAULT)
    return {
        errc::invalid_argument,
        what +
            "the memory cannot be pinned: it is not mapped, or mapped from a file system "
            "that does not allow it, or read-only where READs are to write or rdma.windows is on"};
  return {errc::io_failed, what + std::strerror(number)};
}

error cannot_register_dmabuf(const device& on, std::uint64_t bytes, int number) {
  const std::string what =
      "registering " + mebibytes(bytes) + " of device memory with " + on.port().device + ": ";
  switch (number) {
  case EOPNOTSUPP:
  case ENOSYS:
  case ELIBACC:
  case ENOTTY:
  case EPROTONOSUPPORT:
    return {errc::incompatible,
            what + "the kernel or the NIC's driver has no dmabuf regions (" +
                std::strerror(number) +
                "): they need Linux 5.12 and mlx5, irdma, bnxt_re or efa; without them pass pages "
                "through host memory"};
  case EBADF:
    return {errc::invalid_argument, what + "the descriptor is no open dmabuf"};
  case ENOMEM:
  case EPERM:
    return {errc::out_of_memory, what + memlock_advice(bytes, memlock_limit_bytes())};
  default:
    return {errc::io_failed, what + std::strerror(number)};
  }
}

/// The refusal of windows over a dmabuf: the kernel registers none with MW_BIND.
error no_windows_over_dmabuf(const device& on, std::uint64_t bytes) {
  return {errc::incompatible,
          "registering " + mebibytes(bytes) + " of device memory with " + on.port().device +
              ": the kernel has no memory windows over dmabufs: set rdma.windows = false, or let "
              "the NIC reach the memory by its address (nvidia-peermem)"};
}

result<void> check_size(const device& on, std::uint64_t bytes) {
  const std::uint64_t most = on.port().can.region_bytes;
  if (bytes == 0)
    return {errc::invalid_argument, "an empty region cannot be registered"};
  if (bytes > most)
    return {errc::invalid_argument, "a region of " + mebibytes(bytes) + " is more than " +
                                        on.port().device + " takes at once (" + mebibytes(most) +
                                        "): register it in pieces"};
  return {};
}

} // namespace

std::uint64_t memlock_limit_bytes() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

std::string memlock_advice(std::uint64_t need_bytes, std::uint64_t limit_bytes) {
  if (limit_bytes == RLIM_INFINITY)
    return "the kernel or the device has no memory for it; locked memory (RLIMIT_MEMLOCK) is not "
           "limited";
  return "the limit of locked memory (RLIMIT_MEMLOCK) is " + mebibytes(limit_bytes) + ", " +
         mebibytes(need_bytes) +
         " are needed on top of what is registered already; raise it: `ulimit -l unlimited` in the "
         "starting shell, or `LimitMEMLOCK=infinity` in the systemd unit, or `* - memlock "
         "unlimited` in /etc/security/limits.conf";
}

result<memory_region> memory_region::register_memory(const device& on, std::span<std::byte> memory,
                                                     region_use use) {
  if (auto fits = check_size(on, memory.size()); !fits)
    return fits.error();
  ibv_mr* region = ibv_reg_mr(on.domain(), memory.data(), memory.size(), rights_of(use));
  if (region == nullptr)
    return cannot_register(on, memory.size(), errno);
  return memory_region(region, reinterpret_cast<std::uint64_t>(memory.data()), use);
}

result<memory_region> memory_region::register_dmabuf(const device& on, int dmabuf_fd,
                                                     std::uint64_t offset_bytes,
                                                     std::uint64_t bytes, std::uint64_t address,
                                                     region_use use) {
  if (auto fits = check_size(on, bytes); !fits)
    return fits.error();
  if (use == region_use::windows)
    return no_windows_over_dmabuf(on, bytes);
  ibv_mr* region =
      ::ibv_reg_dmabuf_mr(on.domain(), offset_bytes, bytes, address, dmabuf_fd, rights_of(use));
  if (region == nullptr)
    return cannot_register_dmabuf(on, bytes, errno);
  return memory_region(region, address, use);
}

result<memory_region> memory_region::register_with(const device& on, std::span<std::byte> memory,
                                                   device_memory* gpu, region_use use) {
  if (gpu != nullptr && gpu->holds(memory.data())) {
    if (use == region_use::windows) {
      auto made = register_memory(on, memory, use);
      if (made)
        return made;
      return {errc::incompatible, no_windows_over_dmabuf(on, memory.size()).message +
                                      "; by its address: " + made.error().message};
    }
    if (const auto exported = gpu->export_dmabuf(memory)) {
      auto made = register_dmabuf(on, exported->dmabuf.get(), exported->offset_bytes, memory.size(),
                                  reinterpret_cast<std::uint64_t>(memory.data()), use);
      // A NIC or kernel without dmabuf may know the memory by its address.
      if (made || made.error().code != errc::incompatible)
        return made;
    }
  }
  return register_memory(on, memory, use);
}

memory_region::memory_region(ibv_mr* region, std::uint64_t address, region_use use)
    : region_(region), address_(address),
      windows_(use == region_use::windows ? std::make_shared<region_windows>(region, address)
                                          : nullptr) {}

void memory_region::reset() noexcept {
  const bool had_windows = windows_ != nullptr;
  if (had_windows)
    windows_->close();
  windows_.reset();
  if (ibv_mr* region = std::exchange(region_, nullptr)) {
    const int ended = ::ibv_dereg_mr(region);
    // A region that has a window left would stay readable although it counts as gone.
    PEERCACHE_ASSERT(!had_windows || is_revoked(ended));
  }
}

} // namespace peercache::rdma::verbs
