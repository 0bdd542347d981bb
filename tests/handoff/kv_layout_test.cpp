#include "handoff/kv_layout.hpp"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::handoff {
namespace {

using testing::HasSubstr;

kv_layout good_layout() {
  kv_layout layout;
  layout.dtype = "bfloat16";
  layout.page_tokens = 16;
  layout.kv_heads = 8;
  layout.end_layer = layout.model_layers = 2;
  layout.ranks = {1, 2, 0, 1, 0, 1};
  for (std::uint64_t i = 1; i <= 4; ++i)
    layout.buffers.push_back({i << 20, 64 * 4096, 4096, no_layer});
  state_component mamba;
  mamba.tensors.push_back({{9 << 20, 1024, 64, 0}, 8, 2, {4, 4, 8}});
  layout.states.push_back(mamba);
  layout.aux.push_back({10 << 20, 640, 64, no_layer});
  return layout;
}

struct change {
  const char* says;
  std::function<void(kv_layout&)> make;
};

TEST(kv_layout, of_a_worker_is_taken) {
  EXPECT_TRUE(check(good_layout()));
  auto ids = good_layout();
  for (std::uint32_t i = 0; i < 4; ++i)
    ids.buffers[i].layer = i % 2;
  EXPECT_TRUE(check(ids));
}

TEST(kv_layout, that_no_worker_can_have_is_refused_with_its_fault) {
  const change changes[] = {
      {"name of its number type has 0 bytes", [](auto& l) { l.dtype.clear(); }},
      {"name of its number type has 33 bytes", [](auto& l) { l.dtype.assign(33, 'a'); }},
      {"cannot be printed", [](auto& l) { l.dtype = "a\n"; }},
      {"pages of 0 tokens", [](auto& l) { l.page_tokens = 0; }},
      {"4096 bytes for 3 tokens", [](auto& l) { l.page_tokens = 3; }},
      {"KV heads", [](auto& l) { l.kv_heads = limits::heads_max + 1; }},
      {"hybrid of MLA without MLA", [](auto& l) { l.hybrid_mla = true; }},
      {"layers 3 to 2", [](auto& l) { l.first_layer = 3; }},
      {"a stage up to layer 2 of 1", [](auto& l) { l.model_layers = 1; }},
      {"tensor parallel rank 2 of 2", [](auto& l) { l.ranks.tp = 2; }},
      {"pipeline parallel rank 0 of 0", [](auto& l) { l.ranks.pp_size = 0; }},
      {"context parallel rank 0 of 1025", [](auto& l) { l.ranks.cp_size = 1025; }},
      {"KV buffer 1 has no address", [](auto& l) { l.buffers[1].address = 0; }},
      {"KV buffer 1 has items of 0", [](auto& l) { l.buffers[1].item_bytes = 0; }},
      {"KV buffer 1 has items of", [](auto& l) { l.buffers[1].item_bytes = ~0u; }},
      {"KV buffer 1 is shorter", [](auto& l) { l.buffers[1].length_bytes = 4095; }},
      {"KV buffer 1 ends behind", [](auto& l) { l.buffers[1].length_bytes = ~0ull; }},
      {"some KV buffers have layers", [](auto& l) { l.buffers[1].layer = 0; }},
      {"K and V are 3 buffers", [](auto& l) { l.buffers.pop_back(); }},
      {"1025 KV buffers", [](auto& l) { l.buffers.resize(1025, l.buffers[0]); }},
      {"9 components", [](auto& l) { l.states.resize(9, l.states[0]); }},
      {"1025 tensors", [](auto& l) { l.states[0].tensors.resize(1025); }},
      {"tensor 0 of the states mamba has no address",
       [](auto& l) { l.states[0].tensors[0].buffer.address = 0; }},
      {"2 rows of 0", [](auto& l) { l.states[0].tensors[0].dim = 0; }},
      {"64 bytes for 14 units", [](auto& l) { l.states[0].tensors[0].dim = 7; }},
      {"has 9 groups", [](auto& l) { l.states[0].tensors[0].conv_groups.resize(9); }},
      {"a group of 3 for 2", [](auto& l) { l.states[0].tensors[0].conv_groups[0] = 3; }},
      {"groups of 18", [](auto& l) { l.states[0].tensors[0].conv_groups[0] = 6; }},
      {"some states mamba have layers",
       [](auto& l) {
         l.states[0].tensors.push_back(l.states[0].tensors[0]);
         l.states[0].tensors[1].buffer.layer = no_layer;
       }},
      {"aux rows of 33 fields", [](auto& l) { l.aux.resize(33, l.aux[0]); }},
      {"aux field 0 has no address", [](auto& l) { l.aux[0].address = 0; }},
  };
  for (const auto& [says, make] : changes) {
    auto layout = good_layout();
    make(layout);
    auto checked = check(layout);
    ASSERT_FALSE(checked) << says;
    EXPECT_EQ(checked.error().code, errc::invalid_argument);
    EXPECT_THAT(checked.error().message, HasSubstr(says));
  }
}

TEST(kv_layout, of_another_kind_is_refused_with_both_values) {
  const change changes[] = {
      {"type 'bfloat16' and decode has 'fp8'", [](auto& l) { l.dtype = "fp8"; }},
      {"page size of 16 and decode has 64", [](auto& l) { l.page_tokens = 64; }},
      {"with heads and decode has MLA", [](auto& l) { l.mla = true; }},
      {"states: 1 and decode has 0", [](auto& l) { l.states.clear(); }},
      {"states 'mamba' and decode has 'swa'", [](auto& l) { l.states[0].type = state_type::swa; }},
      {"aux fields: 1 and decode has 0", [](auto& l) { l.aux.clear(); }},
      {"aux field 0: 64 and decode has 32", [](auto& l) { l.aux[0].item_bytes = 32; }},
  };
  EXPECT_TRUE(compare(good_layout(), good_layout()));
  for (const auto& [says, make] : changes) {
    auto other = good_layout();
    make(other);
    auto compared = compare(good_layout(), other);
    ASSERT_FALSE(compared) << says;
    EXPECT_EQ(compared.error().code, errc::incompatible);
    EXPECT_THAT(compared.error().message, HasSubstr(says));
  }
}

} // namespace
} // namespace peercache::handoff
