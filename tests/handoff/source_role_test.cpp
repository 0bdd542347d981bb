#include "handoff/source_role.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace peercache::handoff {
namespace {

using testing::HasSubstr;

/// Returns the places of all workers of a prefill engine with these numbers of ranks. `all_cp`:
/// every context parallel rank sends, not only the first.
std::vector<source_place> workers(std::uint32_t tp, std::uint32_t pp, std::uint32_t cp,
                                  bool all_cp) {
  std::vector<source_place> all;
  for (std::uint32_t i = 0; i < tp * pp * cp; ++i)
    all.push_back({{i % tp, tp, i / tp % pp, pp, i / tp / pp, cp}, all_cp});
  return all;
}

std::string fault_of(const std::vector<source_place>& sources, const worker_ranks& destination) {
  const auto checked = check_sources(sources, destination);
  return checked ? "" : checked.error().message;
}

TEST(source_role, a_room_has_every_worker_that_has_a_part_of_it) {
  EXPECT_EQ(fault_of(workers(1, 1, 1, false), {}), "");
  EXPECT_EQ(fault_of(workers(2, 3, 1, false), {}), "");
  EXPECT_EQ(fault_of(workers(2, 2, 2, true), {}), "");
  EXPECT_THAT(fault_of({}, {}), HasSubstr("no prefill worker"));
  for (const bool all_cp : {false, true})
    for (std::size_t missing = 0; missing < 4; ++missing) {
      auto sources = workers(2, 2, 1, all_cp);
      sources.erase(sources.begin() + static_cast<std::ptrdiff_t>(missing));
      EXPECT_THAT(fault_of(sources, {}), HasSubstr("3 of 4")) << missing;
    }
}

TEST(source_role, decode_s_ranks_share_the_workers_out) {
  const auto all = workers(4, 2, 1, false);
  const worker_ranks second{1, 2, 1, 2, 0, 1}; // Tensor rank 1 of 2, stage 1 of 2.
  EXPECT_EQ(fault_of({all[6], all[7]}, second), "");
  EXPECT_THAT(fault_of({all[6]}, second), HasSubstr("1 of 2"));
  EXPECT_EQ(fault_of(workers(1, 1, 1, false), {3, 4, 0, 1, 0, 1}), "") << "decode has more ranks";
}

TEST(source_role, context_parallel_ranks_that_send_nothing_may_be_missing) {
  auto sources = workers(1, 1, 3, false);
  EXPECT_EQ(fault_of(sources, {}), "");
  sources.pop_back();
  EXPECT_EQ(fault_of(sources, {}), "");
  sources.erase(sources.begin());
  EXPECT_THAT(fault_of(sources, {}), HasSubstr("0 of 1"));
  auto sharing = workers(1, 1, 3, true);
  sharing.pop_back();
  EXPECT_THAT(fault_of(sharing, {}), HasSubstr("2 of 3"));
}

TEST(source_role, a_room_has_no_worker_twice_and_none_of_another_engine) {
  auto sources = workers(2, 1, 1, false);
  sources[1] = sources[0];
  EXPECT_THAT(fault_of(sources, {}), HasSubstr("twice"));
  sources[1] = workers(1, 2, 1, false)[1];
  EXPECT_THAT(fault_of(sources, {}), HasSubstr("different engines"));
}

} // namespace
} // namespace peercache::handoff
