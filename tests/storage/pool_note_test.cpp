#include "storage/pool_note.hpp"

#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace peercache::storage {
namespace {

TEST(pool_note, is_what_was_written_last) {
  const auto memory = std::make_unique<note_block>();
  pool_note note(*memory);
  EXPECT_EQ(note.read(), "");
  const std::string long_one(pool_note::bytes_max, 'x');
  note.write(long_one);
  EXPECT_EQ(pool_note(*memory).read(), long_one);
  note.write("short");
  EXPECT_EQ(note.read(), "short");
  note.write("");
  EXPECT_EQ(note.read(), "");
}

TEST(pool_note, one_whose_writer_died_in_it_is_none) {
  const auto memory = std::make_unique<note_block>();
  pool_note(*memory).write("before");
  memory->length = 0xffffffff;
  EXPECT_EQ(pool_note(*memory).read(), std::nullopt);
}

} // namespace
} // namespace peercache::storage
