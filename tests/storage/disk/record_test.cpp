#include "storage/disk/record.hpp"

#include "common/limits.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace peercache::storage::record_test {
namespace {

constexpr record_owner us{17, 23};

record_header some_header() {
  record_header header;
  header.key.bytes[3] = 99;
  header.space = us.space;
  header.node = us.node;
  header.gen = 4;
  header.sequence = 5;
  header.written_s = 6;
  header.checksum = 7;
  header.offset_bytes = 3 * disk_block_bytes;
  header.length_bytes = 5000;
  header.more = 2;
  seal(header);
  return header;
}

std::span<const std::byte> bytes_of(const record_header& header) {
  return std::as_bytes(std::span(&header, 1));
}

record_fault fault_of(const record_header& header) {
  record_header read;
  return read_record(bytes_of(header), us, read);
}

TEST(crc32c, has_the_check_values_of_rfc_3720) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xE3069283u);
  const std::vector<std::byte> zeros(32);
  EXPECT_EQ(crc32c(zeros), 0x8A9136AAu);
  const std::vector<std::byte> ones(32, std::byte{0xff});
  EXPECT_EQ(crc32c(ones), 0x62A8AB43u);
  std::vector<std::byte> up;
  for (unsigned i = 0; i < 32; ++i)
    up.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(crc32c(up), 0x46DD794Eu);
}

TEST(crc32c, is_the_same_with_and_without_the_instruction_and_in_pieces) {
  std::mt19937_64 random(1);
  std::vector<std::byte> bytes(300);
  for (auto& byte : bytes)
    byte = static_cast<std::byte>(random());
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const auto all = std::span<const std::byte>(bytes).first(length);
    const auto cut = static_cast<std::size_t>(random() % (length + 1));
    const auto whole = crc32c(all);
    ASSERT_EQ(whole, detail::crc32c_portable(all, 0)) << length;
    ASSERT_EQ(whole, crc32c(all.subspan(cut), crc32c(all.first(cut)))) << length << " at " << cut;
  }
}

TEST(record, comes_back_as_it_was_sealed) {
  const auto header = some_header();
  record_header read;
  ASSERT_EQ(read_record(bytes_of(header), us, read), record_fault::none);
  EXPECT_EQ(std::memcmp(&read, &header, sizeof read), 0);
  EXPECT_EQ(std::string_view(header.magic.data(), header.magic.size()), "PCRECORD");
}

TEST(record, every_flipped_bit_is_found) {
  const auto sealed = some_header();
  for (std::size_t bit = 0; bit < 8 * sizeof sealed; ++bit) {
    auto header = sealed;
    reinterpret_cast<std::uint8_t*>(&header)[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    ASSERT_EQ(fault_of(header), record_fault::torn) << "bit " << bit;
  }
}

TEST(record, every_torn_one_is_found) {
  const auto sealed = some_header();
  for (std::size_t there = 1; there < sizeof sealed; ++there) {
    record_header torn{};
    std::memset(static_cast<void*>(&torn), 0, sizeof torn);
    std::memcpy(static_cast<void*>(&torn), &sealed, there);
    // If the bytes that are missing from a torn header were zeros, the header is whole.
    if (std::memcmp(&torn, &sealed, sizeof torn) != 0) {
      ASSERT_EQ(fault_of(torn), record_fault::torn) << there << " bytes";
    }
  }
}

TEST(record, zeros_are_no_record) {
  const std::vector<std::byte> zeros(sizeof(record_header));
  record_header read;
  EXPECT_EQ(read_record(zeros, us, read), record_fault::empty);
}

TEST(record, of_another_node_or_cluster_is_foreign) {
  auto header = some_header();
  header.node = 1;
  seal(header);
  EXPECT_EQ(fault_of(header), record_fault::foreign);
  header = some_header();
  header.space = 1;
  seal(header);
  EXPECT_EQ(fault_of(header), record_fault::foreign);
}

TEST(record, of_another_version_is_told_apart) {
  auto header = some_header();
  header.version = record_version + 1;
  const auto bytes = bytes_of(header);
  header.header_crc = crc32c(bytes.subspan(16), crc32c(bytes.first(12)));
  EXPECT_EQ(fault_of(header), record_fault::version);
}

TEST(record, with_a_length_or_a_place_that_no_page_has_is_refused) {
  const auto with = [](std::uint32_t length_bytes, std::uint64_t offset_bytes) {
    auto header = some_header();
    header.length_bytes = length_bytes;
    header.offset_bytes = offset_bytes;
    seal(header);
    return fault_of(header);
  };
  EXPECT_EQ(with(1, 0), record_fault::none);
  EXPECT_EQ(with(limits::page_bytes_max, disk_block_bytes), record_fault::none);
  EXPECT_EQ(with(0, 0), record_fault::bad_size);
  EXPECT_EQ(with(limits::page_bytes_max + 1, 0), record_fault::bad_size);
  EXPECT_EQ(with(1, 100), record_fault::bad_size);
}

} // namespace
} // namespace peercache::storage::record_test
