#include "tests/handoff/plan_world.hpp"

#include <gtest/gtest.h>

namespace peercache::handoff::test {
namespace {

struct room_of_two {
  room_items source, destination;
};

room_of_two random_room(const model_shape& shape, std::mt19937_64& random) {
  const auto prefix = static_cast<std::uint32_t>(random() % 4);
  const auto pages = static_cast<std::uint32_t>(random() % 16);
  const auto window = static_cast<std::uint32_t>(random() % (prefix + pages + 1));
  const auto ring = static_cast<std::uint32_t>(random() % 9);
  const bool compressed = random() % 2 == 0;
  auto items = [&] { return random_items(shape, random, prefix, pages, window, ring, compressed); };
  auto source = items();
  return {std::move(source), items()};
}

allocated_pages allocated(const room_items& room) {
  return {room.prefix_pages, room.pages, room.states, room.aux_row};
}

/// Carries out a plan for one room in chunks of random length. Leaves out the parts for which the
/// prefill worker is a dummy. Returns the number of bytes that the plan promised.
std::uint64_t transfer(const transfer_plan& plan, const room_of_two& room, fake_worker& to,
                       std::mt19937_64& random) {
  const auto& pages = room.source.pages;
  std::uint64_t promised = 0;
  for (std::size_t at = 0;;) {
    const auto count = std::min<std::size_t>(pages.size() - at, 1 + random() % 8);
    offered_pages offer;
    offer.first_page = room.source.prefix_pages + static_cast<std::uint32_t>(at);
    offer.pages.assign(pages.begin() + static_cast<long>(at),
                       pages.begin() + static_cast<long>(at + count));
    at += count;
    offer.last = at == pages.size() && (count == 0 || random() % 2 == 0);
    if (offer.last) {
      offer.states = room.source.states;
      offer.aux_row = room.source.aux_row;
    }
    auto reader = plan.pieces(offer, allocated(room.destination));
    EXPECT_TRUE(reader) << reader.error().message;
    if (!reader)
      return 0;
    std::uint64_t moved = 0;
    std::vector<page_part> parts;
    while (auto piece = reader->next(parts)) {
      EXPECT_LE(piece->bytes, limits::page_bytes_max);
      EXPECT_LE(piece->part_count, limits::parts_per_page_max);
      EXPECT_LE(piece->source.rows, limits::piece_rows_max);
      EXPECT_EQ(piece->bytes, piece->source.rows * piece->source.row_bytes);
      EXPECT_EQ(piece->first_part + piece->part_count, parts.size());
      to.receive(*piece, parts);
      moved += piece->bytes;
    }
    EXPECT_EQ(moved, reader->bytes());
    promised += moved;
    if (offer.last)
      return promised;
  }
}

/// Sends one room from all workers of prefill to one worker of decode. Then each byte of the room
/// must be right and written exactly once, and no other byte touched.
void hand_over(const model_shape& shape, worker_ranks to, std::mt19937_64& random) {
  fake_worker destination(shape, to, false);
  ASSERT_TRUE(check(destination.layout()));
  const auto places = random_room(shape, random);
  std::uint64_t bytes = 0;
  for (std::uint32_t tp = 0; tp < shape.p; ++tp)
    for (std::uint32_t pp = 0; pp < shape.source_stages; ++pp)
      for (std::uint32_t cp = 0; cp < shape.cp; ++cp) {
        fake_worker source(shape, {tp, shape.p, pp, shape.source_stages, cp, shape.cp}, true);
        const auto good = check(source.layout());
        ASSERT_TRUE(good) << good.error().message;
        auto plan = transfer_plan::create(source.layout(), destination.layout());
        if (!plan && plan.error().code == errc::invalid_argument)
          continue; // This pair of workers has nothing to exchange.
        ASSERT_TRUE(plan) << plan.error().message;
        source.fill(places.source);
        const auto moved = transfer(*plan, places, destination, random);
        EXPECT_TRUE(!plan->role().dummy() || moved == 0);
        bytes += moved;
      }
  EXPECT_EQ(destination.check(places.destination), "");
  EXPECT_GT(bytes, 0u);
}

TEST(transfer_plan, writes_each_promised_byte_once_and_from_its_source) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    const model_shape shape(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + shape.text());
    for (std::uint32_t pp = 0; pp < shape.destination_stages; ++pp)
      hand_over(shape,
                {static_cast<std::uint32_t>(random() % shape.d), shape.d, pp,
                 shape.destination_stages, 0, 1},
                random);
    if (HasFailure())
      return;
  }
}

} // namespace
} // namespace peercache::handoff::test
