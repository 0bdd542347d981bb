#pragma once

#include "storage/disk/io/disk_io.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace peercache::storage {

/// Memory that is aligned to disk blocks.
class block_memory {
public:
  explicit block_memory(std::size_t bytes)
      : bytes_(bytes), memory_(static_cast<std::byte*>(
                           ::operator new(bytes, std::align_val_t(disk_block_bytes)))) {
    std::memset(memory_.get(), 0, bytes);
  }

  std::byte* data() const noexcept { return memory_.get(); }
  std::size_t size() const noexcept { return bytes_; }
  std::span<std::byte> all() const noexcept { return {data(), bytes_}; }
  std::span<std::byte> part(std::size_t at, std::size_t bytes) const noexcept {
    return {data() + at, bytes};
  }

  /// Fills all or a part of the memory with pseudo-random bytes that `number` decides.
  void fill(unsigned number) const { fill(0, bytes_, number); }
  void fill(std::size_t at, std::size_t bytes, unsigned number) const {
    std::minstd_rand random(number + 1);
    for (std::size_t i = 0; i < bytes; ++i)
      data()[at + i] = static_cast<std::byte>(random() >> 7);
  }

private:
  struct give_back {
    void operator()(std::byte* memory) const {
      ::operator delete(memory, std::align_val_t(disk_block_bytes));
    }
  };

  std::size_t bytes_;
  std::unique_ptr<std::byte, give_back> memory_;
};

inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

/// Opens a version of `disk_io` over one folder, which is empty at first.
class disk_io_rig {
public:
  virtual ~disk_io_rig() = default;
  virtual std::unique_ptr<disk_io> open(std::uint32_t queue_depth) = 0;
};

struct disk_io_version {
  const char* name;
  /// Makes the rig of this version. Returns null when this machine cannot run the version, and sets
  /// `why`.
  std::unique_ptr<disk_io_rig> (*make)(std::string& why);
};

/// Submits requests to a disk_io and waits for their completions.
class disk_io_driver {
public:
  explicit disk_io_driver(disk_io& io) : io_(io) {}

  static disk_request request(disk_request::kind what, disk_file file, std::uint64_t offset_bytes,
                              std::span<std::byte> memory, std::uint64_t tag = 0) {
    return {what, file, offset_bytes, memory.data(), static_cast<std::uint32_t>(memory.size()),
            tag};
  }

  int write(disk_file file, std::uint64_t offset_bytes, std::span<std::byte> memory) {
    return one(request(disk_request::kind::write, file, offset_bytes, memory));
  }
  int read(disk_file file, std::uint64_t offset_bytes, std::span<std::byte> memory) {
    return one(request(disk_request::kind::read, file, offset_bytes, memory));
  }
  int sync(disk_file file) { return one(request(disk_request::kind::sync, file, 0, {})); }
  int sync_folder(disk_file folder) {
    return one(request(disk_request::kind::sync_folder, folder, 0, {}));
  }

  /// Runs one request and returns its error, or -1 when no completion came.
  int one(const disk_request& request) {
    const auto done = all({request});
    return done.empty() ? -1 : done.front().error;
  }

  /// Submits the requests, as many at a time as there is room for, and waits for all completions.
  std::vector<disk_completion> all(const std::vector<disk_request>& requests) {
    std::vector<disk_completion> done;
    std::size_t next = 0;
    while (done.size() < requests.size()) {
      while (next < requests.size() && io_.submit(requests[next]))
        ++next;
      reap(done);
      if (done.size() < next)
        io_.wait(std::chrono::seconds(60));
    }
    return done;
  }

  void reap(std::vector<disk_completion>& done) {
    std::vector<disk_completion> some(7);
    for (auto count = io_.reap(some); count != 0; count = io_.reap(some))
      done.insert(done.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  }

private:
  disk_io& io_;
};

} // namespace peercache::storage
