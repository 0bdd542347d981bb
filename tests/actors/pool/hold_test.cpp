// Tests of held pages, from the request at the gateway to the eviction that passes them over.

#include "actors/gateway/gateway_actor.hpp"
#include "tests/actors/cluster_fixture.hpp"

namespace peercache::actors {
namespace {

using storage::hold_outcome;

class hold_test : public cluster_fixture {
protected:
  ~hold_test() override { stop(gateway); }

  gateway_actor spawn_gateway() {
    gateway_options options;
    options.cluster = "test";
    options.self = here;
    options.directory = shard_here;
    options.pool = pool;
    options.session_is_dead = [](std::uint32_t) { return false; };
    options.session_is_held = [](std::uint32_t) { return true; };
    options.ready = [](bool, const std::string&) {};
    return system.spawn(run_gateway, std::move(options));
  }

  std::string place_of(const char* name) {
    const auto found = locations(shard_here, key_named(name));
    std::string page;
    for (const auto& at : found)
      append_record(page, used_page{.gen = at.gen, .slot = at.slot});
    return page;
  }
  std::string hold(const std::string& pages, std::uint32_t who = 5, std::uint32_t for_ms = 2000) {
    auto answer = ask<std::string>(gateway, hold_atom_v, pages, who, for_ms, from_here{});
    return answer ? *answer : "no answer";
  }
  void set_many(int from, int count) {
    for (int i = from; i < from + count; ++i)
      ASSERT_EQ(put(key_named(std::to_string(i))), page_status::stored);
  }
  static std::string outcomes(std::initializer_list<hold_outcome> each) {
    std::string packed;
    for (const auto outcome : each)
      packed.push_back(static_cast<char>(outcome));
    return packed;
  }

  gateway_actor gateway = spawn_gateway();
};

TEST_F(hold_test, a_held_page_outlives_ten_times_the_pool_for_as_long_as_it_is_held) {
  tell_everyone(both());
  for (const auto* name : {"held", "released", "not held"})
    ASSERT_EQ(put(key_named(name)), page_status::stored);
  const auto held = place_of("held");
  const auto released = place_of("released");
  ASSERT_EQ(hold(held + released), outcomes({hold_outcome::held, hold_outcome::held}));
  hold(released, 5, 0);
  hold(held, 6, 0);
  set_many(0, 640);
  // Lets the pool beat, because it sends withdrawals at its beats.
  pass(std::chrono::milliseconds(200));
  EXPECT_EQ(place_of("held"), held);
  EXPECT_TRUE(place_of("released").empty());
  EXPECT_TRUE(place_of("not held").empty());
  pass(std::chrono::milliseconds(2100));
  set_many(1000, 640);
  pass(std::chrono::milliseconds(200));
  EXPECT_TRUE(place_of("held").empty());
}

TEST_F(hold_test, each_page_of_a_question_is_answered) {
  tell_everyone(both());
  std::string pages;
  for (int i = 0; i < 17; ++i) {
    const auto name = "page " + std::to_string(i);
    ASSERT_EQ(put(key_named(name)), page_status::stored);
    pages += place_of(name.c_str());
  }
  append_record(pages, used_page{.gen = {2}, .slot = {0xffffffff}});
  const auto answer = hold(pages);
  ASSERT_EQ(answer.size(), 18u);
  EXPECT_EQ(answer.substr(0, 16), std::string(16, static_cast<char>(hold_outcome::held)));
  EXPECT_EQ(answer.substr(16), outcomes({hold_outcome::refused, hold_outcome::gone}))
      << "16 granules may be held, and the last page is none";
  EXPECT_TRUE(hold("no record").empty());
  const auto numbers = *ask<metrics::samples>(pool, stats_atom_v);
  EXPECT_EQ(numbers.count(metrics::metric::held_pages), 16u);
  EXPECT_EQ(numbers.count(metrics::metric::held_bytes), 16u * 4096);
}

TEST_F(hold_test, a_removed_page_goes_though_it_is_held) {
  tell_everyone(both());
  ASSERT_EQ(put(key_named("held")), page_status::stored);
  ASSERT_EQ(hold(place_of("held")), outcomes({hold_outcome::held}));
  std::string keys;
  append_record(keys, key_named("held"));
  ASSERT_TRUE(ask<std::string>(gateway, remove_atom_v, keys, from_here{}));
  EXPECT_TRUE(place_of("held").empty());
}

} // namespace
} // namespace peercache::actors
