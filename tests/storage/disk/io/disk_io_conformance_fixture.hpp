#pragma once

#include "tests/storage/disk/io/disk_io_rig.hpp"

#include <algorithm>
#include <optional>

namespace peercache::storage {

/// The fixture of the tests that every version of disk_io must pass. A test program includes
/// disk_io_conformance.hpp and disk_io_folder_conformance.hpp in one source file, which
/// instantiates them with the versions to test.
class disk_io_conformance : public testing::TestWithParam<disk_io_version> {
protected:
  using kind = disk_request::kind;

  static constexpr std::uint32_t depth = 16;
  static constexpr std::uint32_t block = disk_block_bytes;

  void SetUp() override {
    std::string why;
    rig = GetParam().make(why);
    if (!rig)
      GTEST_SKIP() << why;
    io = rig->open(depth);
    ASSERT_TRUE(io);
    driver.emplace(*io);
  }

  disk_file created(const std::string& name, std::uint64_t bytes) {
    auto made = io->create(name, bytes);
    EXPECT_TRUE(made) << (made ? "" : to_string(made.error()));
    return made ? *made : disk_file();
  }

  std::string text_of(const std::string& name) {
    std::string text(100, '\0');
    const auto bytes = io->read_now(name, 0, std::as_writable_bytes(std::span(text)));
    return bytes ? text.substr(0, std::min<std::size_t>(*bytes, text.find('\0'))) : "?";
  }

  /// Makes a file of one block that begins with this text.
  void put_text(const std::string& name, std::string_view text) {
    const block_memory memory(block);
    std::memcpy(memory.data(), text.data(), text.size());
    const auto file = created(name, block);
    EXPECT_EQ(driver->write(file, 0, memory.all()), 0);
    io->close(file);
  }

  template <class T>
  static errc code_of(const result<T>& what) {
    EXPECT_FALSE(what);
    return what ? errc{} : what.error().code;
  }

  std::unique_ptr<disk_io_rig> rig;
  std::unique_ptr<disk_io> io;
  std::optional<disk_io_driver> driver;
};

} // namespace peercache::storage
