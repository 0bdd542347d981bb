#include "storage/disk/bucket/bucket_format.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace peercache::storage {
namespace {

constexpr record_owner us{1, 2};

std::vector<record_header> some_records(std::uint32_t count, std::uint64_t offset_bytes) {
  std::vector<record_header> records(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    records[i].key.bytes[0] = static_cast<std::uint8_t>(i);
    records[i].space = us.space;
    records[i].node = us.node;
    records[i].length_bytes = 1 + i * 3000;
  }
  place_group(records, offset_bytes);
  for (auto& record : records)
    seal(record);
  return records;
}

std::vector<std::byte> block_of(const std::vector<record_header>& records) {
  std::vector<std::byte> block(disk_block_bytes);
  std::memcpy(block.data(), records.data(), records.size() * sizeof(record_header));
  return block;
}

std::span<const std::byte> bytes_of(const disk_blocks& blocks, std::uint64_t bytes) {
  return {blocks.get(), bytes};
}

TEST(bucket_format, names_are_read_as_they_were_written_and_no_others_are) {
  for (const std::uint64_t id : {0ull, 1ull, 0xabcdefull, 0xffffffffffull}) {
    const auto path = bucket_path(id);
    EXPECT_EQ(parse_bucket_name(path.substr(path.find('/') + 1)), id) << path;
  }
  for (const auto* name :
       {"", "1.bucket", "000000000000000g.bucket", "00000000000000ab.bucke",
        "00000000000000AB.bucket", "x00000000000000ab.bucket", "ffffffffffffffff.bucket",
        "00000000000000ab.bucket.tmp", "-0000000000000ab.bucket"})
    EXPECT_EQ(parse_bucket_name(name), std::nullopt) << name;
}

TEST(bucket_format, a_group_comes_back_as_it_was_placed) {
  for (std::uint32_t count = 1; count < records_per_block; ++count) {
    auto records = some_records(count, 40'960);
    const auto end = records.back().offset_bytes + in_blocks(records.back().length_bytes);
    const auto read = read_group(block_of(records), us, 40'960);
    ASSERT_EQ(read.fault, record_fault::none);
    ASSERT_EQ(read.records.size(), count);
    EXPECT_EQ(read.end_bytes, end);
    EXPECT_EQ(read.records[0].offset_bytes, 40'960u + disk_block_bytes);
    EXPECT_EQ(read.records.back().more, 0u);
  }
}

TEST(bucket_format, a_group_that_lies_elsewhere_or_is_mixed_is_none) {
  const auto records = some_records(5, 0);
  EXPECT_EQ(read_group(block_of(records), us, disk_block_bytes).fault, record_fault::bad_size);
  auto swapped = records;
  std::swap(swapped[1], swapped[2]);
  EXPECT_EQ(read_group(block_of(swapped), us, 0).fault, record_fault::bad_size);
  auto fewer = records;
  fewer.erase(fewer.begin() + 1);
  EXPECT_EQ(read_group(block_of(fewer), us, 0).fault, record_fault::bad_size);
  auto cut = records;
  cut.pop_back();
  EXPECT_EQ(read_group(block_of(cut), us, 0).fault, record_fault::empty);
  auto many = records;
  many[0].more = records_per_block;
  seal(many[0]);
  EXPECT_EQ(read_group(block_of(many), us, 0).fault, record_fault::bad_size);
  EXPECT_EQ(read_group(block_of(records), {1, 3}, 0).fault, record_fault::foreign);
  EXPECT_EQ(read_group(std::vector<std::byte>(disk_block_bytes), us, 0).fault, record_fault::empty);
}

TEST(bucket_format, a_footer_comes_back_and_every_flipped_bit_in_it_is_found) {
  const auto records = some_records(31, 0);
  const std::uint64_t at = 1024 * disk_block_bytes;
  const auto bytes = footer_bytes(records.size());
  const auto footer = make_footer(7, us, records, at);
  const auto is_read = [&] {
    const auto raw = bytes_of(footer, bytes);
    bucket_trailer trailer;
    if (read_trailer(raw.last(sizeof trailer), 7, us, at + bytes, trailer) != record_fault::none)
      return false;
    const auto read = read_footer(raw, trailer);
    return read && std::memcmp(read->data(), records.data(), 31 * sizeof(record_header)) == 0;
  };
  ASSERT_TRUE(is_read());
  for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
    const auto mask = std::byte{1} << bit % 8;
    footer[bit / 8] ^= mask;
    const bool used = bit / 8 < 31 * sizeof(record_header) || bit / 8 >= bytes - 64;
    ASSERT_EQ(is_read(), !used) << "bit " << bit;
    footer[bit / 8] ^= mask;
  }
}

TEST(bucket_format, a_trailer_of_another_bucket_owner_or_size_is_refused) {
  const auto records = some_records(3, 0);
  const std::uint64_t at = 8 * disk_block_bytes;
  const auto bytes = footer_bytes(records.size());
  const auto footer = make_footer(7, us, records, at);
  const auto raw = bytes_of(footer, bytes).last(sizeof(bucket_trailer));
  bucket_trailer trailer;
  EXPECT_EQ(read_trailer(raw, 7, us, at + bytes, trailer), record_fault::none);
  EXPECT_EQ(read_trailer(raw, 8, us, at + bytes, trailer), record_fault::foreign);
  EXPECT_EQ(read_trailer(raw, 7, {1, 3}, at + bytes, trailer), record_fault::foreign);
  EXPECT_EQ(read_trailer(raw, 7, {3, 2}, at + bytes, trailer), record_fault::foreign);
  EXPECT_EQ(read_trailer(raw, 7, us, at + bytes + disk_block_bytes, trailer), record_fault::torn);
  EXPECT_EQ(read_trailer(raw, 7, us, disk_block_bytes, trailer), record_fault::torn);
}

TEST(bucket_format, pages_that_reach_into_the_footer_are_refused) {
  const auto records = some_records(3, 0);
  const auto end = records.back().offset_bytes + in_blocks(records.back().length_bytes);
  for (const auto at : {end, end - disk_block_bytes}) {
    const auto footer = make_footer(7, us, records, at);
    const auto raw = bytes_of(footer, footer_bytes(3));
    bucket_trailer trailer;
    ASSERT_EQ(read_trailer(raw.last(sizeof trailer), 7, us, at + footer_bytes(3), trailer),
              record_fault::none);
    EXPECT_EQ(read_footer(raw, trailer).has_value(), at == end);
  }
}

} // namespace
} // namespace peercache::storage
