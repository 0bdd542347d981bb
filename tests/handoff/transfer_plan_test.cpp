#include "handoff/transfer_plan.hpp"

#include <array>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::handoff::transfer_plan_test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t mib = 1 << 20;

/// Returns a layout of two layers of K and V, with pages of 4 tokens and 4 heads of 8 bytes that
/// are divided among the TP ranks.
kv_layout worker(std::uint64_t base, worker_ranks ranks) {
  kv_layout layout;
  layout.dtype = "bfloat16";
  layout.page_tokens = 4;
  layout.kv_heads = 4;
  layout.end_layer = layout.model_layers = 2;
  layout.ranks = ranks;
  const auto item = 4 * 8 * (4 / ranks.tp_size);
  for (std::uint64_t i = 0; i < 4; ++i)
    layout.buffers.push_back({base + i * mib, 100 * item, item, no_layer});
  return layout;
}

kv_layout source_of(std::uint32_t tp_size = 1) {
  return worker(1000 * mib, {0, tp_size, 0, 1, 0, 1});
}
kv_layout destination_of(std::uint32_t tp_size = 1) {
  return worker(2000 * mib, {0, tp_size, 0, 1, 0, 1});
}

struct all_pieces {
  std::vector<piece> pieces;
  std::vector<page_part> parts;
};

all_pieces read_all(const kv_layout& source, const kv_layout& destination,
                    const offered_pages& offer, const allocated_pages& room) {
  all_pieces all;
  auto plan = transfer_plan::create(source, destination);
  EXPECT_TRUE(plan) << plan.error().message;
  auto reader = plan->pieces(offer, room);
  EXPECT_TRUE(reader) << reader.error().message;
  while (auto piece = reader->next(all.parts))
    all.pieces.push_back(*piece);
  return all;
}

std::string refusal(const offered_pages& offer, const allocated_pages& room,
                    const kv_layout& source = source_of(),
                    const kv_layout& destination = destination_of()) {
  auto plan = transfer_plan::create(source, destination);
  EXPECT_TRUE(plan) << plan.error().message;
  auto reader = plan->pieces(offer, room);
  return reader ? "" : reader.error().message;
}

std::string misfit(const kv_layout& source, const kv_layout& destination) {
  auto plan = transfer_plan::create(source, destination);
  EXPECT_TRUE(plan || plan.error().code == errc::incompatible);
  return plan ? "" : plan.error().message;
}

TEST(transfer_plan, pages_that_grow_by_one_on_both_sides_are_one_piece_of_each_buffer) {
  const auto all = read_all(source_of(), destination_of(), {0, {5, 6, 7, 9, 10}, true, {}, 0},
                            {0, {1, 2, 3, 4, 6}, {}, 0});
  ASSERT_EQ(all.pieces.size(), 4u * 3);
  EXPECT_EQ(all.pieces[0].source, (source_rows{1000 * mib + 5 * 128, 384, 1, 384}));
  EXPECT_EQ(all.pieces[1].source, (source_rows{1000 * mib + 9 * 128, 128, 1, 128}));
  EXPECT_EQ(all.pieces[2].source, (source_rows{1000 * mib + 10 * 128, 128, 1, 128}));
  EXPECT_EQ(all.pieces[3].source.address, 1001 * mib + 5 * 128);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(all.parts[0].data), 2000 * mib + 128);
  EXPECT_EQ(all.parts[0].bytes, 384u);
}

TEST(transfer_plan, two_ranks_to_one_scatter_tokens) {
  auto source = source_of(2);
  source.ranks.tp = 1;
  const auto all = read_all(source, destination_of(), {0, {3}, true, {}, 0}, {0, {0}, {}, 0});
  ASSERT_EQ(all.pieces.size(), 4u);
  EXPECT_EQ(all.pieces[0].source, (source_rows{1000 * mib + 3 * 64, 64, 1, 64}));
  ASSERT_EQ(all.pieces[0].part_count, 4u);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(all.parts[1].data), 2000 * mib + 32 + 16);
  EXPECT_EQ(all.parts[1].bytes, 16u);
}

TEST(transfer_plan, one_rank_to_two_gathers_rows) {
  auto destination = destination_of(2);
  destination.ranks.tp = 1;
  const auto all = read_all(source_of(), destination, {0, {3, 4}, true, {}, 0}, {0, {7, 8}, {}, 0});
  ASSERT_EQ(all.pieces.size(), 4u);
  EXPECT_EQ(all.pieces[0].source, (source_rows{1000 * mib + 3 * 128 + 16, 32, 8, 16}));
  EXPECT_EQ(all.pieces[0].part_count, 1u);
  EXPECT_EQ(all.parts[0].bytes, 128u);
}

/// With 2 heads on 8 ranks, ranks 0 to 3 have head 0. A plan that took the rank modulo 2 would give
/// head 1 to rank 1.
TEST(transfer_plan, replicated_heads_go_to_neighbours) {
  auto source = source_of();
  source.kv_heads = 2;
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    auto destination = destination_of();
    destination.ranks = {rank, 8, 0, 1, 0, 1};
    for (auto& buffer : destination.buffers)
      buffer.item_bytes = 64;
    const auto all = read_all(source, destination, {0, {0}, true, {}, 0}, {0, {0}, {}, 0});
    EXPECT_EQ(all.pieces[0].source.address, 1000 * mib + (rank / 4) * 16) << rank;
  }
}

TEST(transfer_plan, a_long_run_is_cut_at_the_limits_of_a_read) {
  item_stripe whole{0, 0, 16 * mib, 16 * mib, 1, 16 * mib};
  item_stripe scattered{4096, 4096, 16, 64, 4, 16};
  item_stripe gathered{4096, 4096, 64, 16, 4, 16};
  auto sizes = [](const item_stripe& stripe, std::uint32_t items) {
    std::vector<std::array<std::uint32_t, 3>> cut;
    std::vector<page_part> parts;
    for (piece_cutter cutter(stripe, {0, 0, items}); !cutter.finished();) {
      const auto piece = cutter.next(parts);
      cut.push_back({piece.bytes, piece.source.rows, piece.part_count});
    }
    return cut;
  };
  using testing::ElementsAre;
  constexpr std::uint32_t most = 64 * mib;
  EXPECT_THAT(sizes(whole, 9), ElementsAre(std::array{most, 1u, 1u}, std::array{most, 1u, 1u},
                                           std::array{most / 4, 1u, 1u}));
  EXPECT_THAT(sizes(scattered, 130),
              ElementsAre(std::array{512u * 16, 1u, 512u}, std::array{8u * 16, 1u, 8u}));
  EXPECT_THAT(sizes(gathered, 4097),
              ElementsAre(std::array{16'384u * 16, 16'384u, 1u}, std::array{4u * 16, 4u, 1u}));
}

TEST(transfer_plan, refuses_pages_that_decode_has_not_allocated) {
  EXPECT_THAT(refusal({0, {1, 2, 3}, false, {}, 0}, {0, {1, 2}, {}, 0}),
              HasSubstr("pages 0 to 3 are offered and 0 to 2 are allocated"));
  EXPECT_THAT(refusal({2, {1}, false, {}, 0}, {0, {1, 2}, {}, 0}), HasSubstr("pages 2 to 3"));
  EXPECT_THAT(refusal({3, {1}, false, {}, 0}, {4, {1, 2}, {}, 0}),
              HasSubstr("pages 3 to 4 are offered and 4 to 6 are allocated"));
  EXPECT_THAT(refusal({0, {1}, true, {}, 0}, {0, {1, 2}, {}, 0}),
              HasSubstr("pages 0 to 1 are offered as the last and 0 to 2"));
  EXPECT_THAT(refusal({~0u, {1}, false, {}, 0}, {0, {1, 2}, {}, 0}), HasSubstr("4294967296"));
  EXPECT_EQ(refusal({4, {1}, false, {}, 0}, {4, {1, 2}, {}, 0}), "");
  EXPECT_EQ(refusal({6, {}, true, {}, 0}, {4, {1, 2}, {}, 0}), "") << "an empty last one";
}

TEST(transfer_plan, refuses_items_beyond_the_end_of_a_buffer) {
  EXPECT_EQ(refusal({0, {99}, true, {}, 0}, {0, {99}, {}, 0}), "");
  EXPECT_THAT(refusal({0, {100}, true, {}, 0}, {0, {1}, {}, 0}), HasSubstr("item 100 of 100"));
  EXPECT_THAT(refusal({0, {1}, true, {}, 0}, {0, {100}, {}, 0}),
              HasSubstr("decode allocated item 100 of 100"));
  auto short_source = source_of();
  short_source.buffers[3].length_bytes -= 1;
  EXPECT_THAT(refusal({0, {99}, true, {}, 0}, {0, {1}, {}, 0}, short_source),
              HasSubstr("item 99 of 99"));
  auto source = source_of(), destination = destination_of();
  source.aux.push_back({3000 * mib, 640, 64, no_layer});
  destination.aux.push_back({3001 * mib, 640, 64, no_layer});
  EXPECT_THAT(refusal({0, {1}, true, {}, 10}, {0, {1}, {}, 0}, source, destination),
              HasSubstr("item 10 of 10"));
}

/// Returns why a plan refuses a room whose only state component, of this type, has these items at
/// prefill and at decode.
std::string refusal_of_states(state_type type, state_items offered, state_items allocated) {
  auto source = source_of(), destination = destination_of();
  source.states.push_back({type, {{{3000 * mib, 640, 64, 0}, 8, 1, {}}}});
  destination.states.push_back({type, {{{3001 * mib, 640, 64, 0}, 8, 1, {}}}});
  return refusal({0, {1}, true, {std::move(offered)}, 0}, {0, {1}, {std::move(allocated)}, 0},
                 source, destination);
}

TEST(transfer_plan, states_must_fit_by_the_rule_of_their_kind) {
  using enum state_type;
  EXPECT_EQ(refusal_of_states(mamba, {0, {1}}, {0, {2}}), "");
  EXPECT_THAT(refusal_of_states(mamba, {0, {}}, {0, {}}), HasSubstr("mamba: 0 are offered"));
  EXPECT_THAT(refusal_of_states(mamba, {0, {1, 2}}, {0, {1, 2}}), HasSubstr("2 are allocated"));
  for (auto type : {swa, dsa, minimax_index_k}) {
    EXPECT_EQ(refusal_of_states(type, {3, {1, 2}}, {3, {4, 5}}), "");
    EXPECT_EQ(refusal_of_states(type, {2, {9, 1, 2}}, {3, {4, 5}}), "");
    EXPECT_THAT(refusal_of_states(type, {3, {1, 2, 3}}, {3, {4, 5}}),
                HasSubstr("pages 3 to 6 are offered and 3 to 5 are allocated"));
    EXPECT_THAT(refusal_of_states(type, {4, {2}}, {3, {4, 5}}), HasSubstr("pages 4 to 5"));
    EXPECT_THAT(refusal_of_states(type, {3, {1}}, {3, {4, 5}}), HasSubstr("pages 3 to 4"));
  }
  EXPECT_EQ(refusal_of_states(swa_ring, {0, {1, 2}}, {0, {3, 4}}), "");
  EXPECT_THAT(refusal_of_states(swa_ring, {0, {1, 2}}, {0, {3}}), HasSubstr("2 are offered and 1"));
  EXPECT_EQ(refusal_of_states(c128_state, {0, {}}, {0, {}}), "");
  EXPECT_THAT(refusal_of_states(c128_state, {0, {}}, {0, {3}}), HasSubstr("0 are offered and 1"));
  EXPECT_THAT(refusal_of_states(c128_state, {0, {1, 2}}, {0, {3, 4}}), HasSubstr("2 are offered"));
  EXPECT_THAT(refusal_of_states(swa, {0, {10}}, {0, {3}}), HasSubstr("item 10 of 10"));
}

TEST(transfer_plan, states_come_with_the_last_pages_and_not_before) {
  EXPECT_THAT(refusal({0, {1}, false, {{0, {1}}}, 0}, {0, {1, 2}, {}, 0}),
              HasSubstr("before the last pages"));
  EXPECT_THAT(refusal({0, {1}, true, {{0, {1}}}, 0}, {0, {1}, {}, 0}),
              HasSubstr("components of states: 1 are offered and 0 are allocated"));
}

TEST(transfer_plan, workers_that_do_not_fit_are_refused_with_the_difference) {
  auto with = [](std::function<void(kv_layout&)> change) {
    auto layout = destination_of();
    change(layout);
    return layout;
  };
  EXPECT_THAT(misfit(source_of(), with([](auto& l) { l.buffers[1].item_bytes = 256; })),
              HasSubstr("KV buffer 1: bytes of an item: prefill has 128 and decode has 256"));
  EXPECT_THAT(misfit(source_of(), with([](auto& l) { l.buffers.resize(2); })),
              HasSubstr("prefill has 4 buffers and decode 2"));
  EXPECT_THAT(misfit(source_of(2), with([](auto& l) { l.buffers[0].item_bytes = 192; })),
              HasSubstr("KV buffer 0: bytes of a token with 2 and 4 heads"));
  EXPECT_THAT(misfit(source_of(), with([](auto& l) { l.ranks.tp_size = 3; })),
              HasSubstr("4 KV heads cannot be shared out over 1 ranks of prefill and 3"));
  EXPECT_THAT(misfit(source_of(2), with([](auto& l) { l.ranks.tp_size = 3; })),
              HasSubstr("neither divides the other"));
  EXPECT_THAT(misfit(source_of(), with([](auto& l) { l.ranks.pp_size = 2; })),
              HasSubstr("pipeline stages"));
  EXPECT_THAT(misfit(source_of(), with([](auto& l) { l.ranks.cp_size = 2; })),
              HasSubstr("decode must have one"));
  EXPECT_THAT(misfit(source_of(), with([](auto& l) { l.dtype = "fp8"; })), HasSubstr("'fp8'"));
}

TEST(transfer_plan, layers_that_one_side_lacks_are_named) {
  auto ids = [](kv_layout layout, std::array<std::uint32_t, 4> layers) {
    for (std::size_t i = 0; i < 4; ++i)
      layout.buffers[i].layer = layers[i];
    return layout;
  };
  EXPECT_EQ(misfit(ids(source_of(), {0, 1, 0, 1}), ids(destination_of(), {0, 0, 1, 1})), "");
  EXPECT_THAT(misfit(ids(source_of(), {0, 1, 0, 1}), ids(destination_of(), {0, 2, 0, 2})),
              HasSubstr("decode has 0 buffers of layer 1"));
  EXPECT_THAT(misfit(ids(source_of(), {0, 1, 0, 0}), ids(destination_of(), {0, 1, 0, 1})),
              HasSubstr("layer 0 and prefill has more"));
  auto more = ids(destination_of(), {0, 1, 0, 1});
  for (int i = 0; i < 2; ++i)
    more.buffers.push_back({2005 * mib, 12'800, 128, 2});
  EXPECT_THAT(misfit(ids(source_of(), {0, 1, 0, 1}), more),
              HasSubstr("prefill has 0 buffers of layer 2 and decode 2"));
  EXPECT_THAT(misfit(source_of(), ids(destination_of(), {0, 1, 0, 1})),
              HasSubstr("one of them alone"));
}

TEST(transfer_plan, stages_without_layers_need_the_number_of_layers) {
  auto source = source_of();
  source.ranks = {0, 1, 1, 2, 0, 1};
  source.buffers.resize(2);
  source.first_layer = 1;
  auto all = read_all(source, destination_of(), {0, {0}, true, {}, 0}, {0, {0}, {}, 0});
  ASSERT_EQ(all.parts.size(), 2u);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(all.parts[0].data), 2001 * mib) << "K of layer 1";
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(all.parts[1].data), 2003 * mib) << "V of layer 1";
  source.model_layers = 0;
  EXPECT_THAT(misfit(source, destination_of()), HasSubstr("nor how many layers the model has"));
  source.end_layer = 1;
  EXPECT_THAT(misfit(source, destination_of()), HasSubstr("does not say which layers"));
}

TEST(transfer_plan, workers_that_have_nothing_for_each_other_are_told_so) {
  auto source = source_of(2);
  source.ranks.tp = 1;
  auto plan = transfer_plan::create(source, destination_of(2));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, errc::invalid_argument);
  EXPECT_THAT(plan.error().message, HasSubstr("tp 1 of 2"));
}

TEST(transfer_plan, the_second_worker_with_the_same_bytes_is_a_dummy) {
  auto source = source_of(2);
  auto destination = destination_of();
  source.mla = destination.mla = true;
  for (auto& buffer : destination.buffers)
    buffer.item_bytes = 64;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    source.ranks.tp = rank;
    auto role = role_of(source, destination);
    ASSERT_TRUE(role);
    EXPECT_EQ(role->dummy(), rank == 1);
  }
}

TEST(transfer_plan, shares_of_pages_cover_them_once) {
  std::uint32_t next = 0;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto share = share_of(11, rank, 3);
    EXPECT_EQ(share.first, next);
    EXPECT_EQ(share.count, rank < 2 ? 4u : 3u);
    next += share.count;
  }
  EXPECT_EQ(next, 11u);
}

} // namespace
} // namespace peercache::handoff::transfer_plan_test
