#include "directory/shard.hpp"
#include "directory/wire.hpp"
#include "tests/fuzz/fuzz_input.hpp"

#include <array>

namespace {

using namespace peercache;

template <class Record, class Take>
void read_batch(std::string_view batch, Take take) {
  directory::batch_reader<Record> reader(batch);
  Record record;
  for (std::size_t i = 0; i < reader.count() && reader.next(record); ++i)
    take(record);
}

} // namespace

/// Decodes any bytes as batches that writers and readers send to a shard of the directory, and as a
/// shard's answers.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  directory::shard shard(64);
  const std::array<incarnation, 2> members{incarnation{1, 1}, incarnation{2, 2}};
  shard.set_members(members);
  std::array<directory::page_location, limits::locations_per_key_max> found;
  while (!in.empty()) {
    const auto kind = in.value<std::uint8_t>() % 4;
    const auto bytes = in.piece();
    if (kind == 0)
      read_batch<directory::publish_record>(bytes, [&](const auto& record) {
        shard.publish(record.key, record.location, record.mode);
      });
    else if (kind == 1)
      read_batch<directory::withdraw_record>(bytes, [&](const auto& record) {
        shard.withdraw(record.key, record.holder, record.gen);
      });
    else if (kind == 2)
      read_batch<page_key>(bytes, [&](const page_key& key) { shard.lookup(key, found); });
    else
      for (directory::answer_reader answer(bytes); !answer.finished();) {
        std::size_t count = 0;
        if (!answer.next(found, count))
          break;
        PEERCACHE_ASSERT(count <= found.size());
      }
  }
  PEERCACHE_ASSERT(shard.locations() <= 64);
  return 0;
}
