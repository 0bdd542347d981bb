#include "discovery/view_difference.hpp"

#include "common/test_guards.hpp"
#include "discovery/view_codec.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace peercache::discovery::view_difference_test {
namespace {

member member_named(const std::string& name, std::uint64_t inc) {
  return {.name = name,
          .id = node_id_of(name),
          .inc = {inc, ~inc},
          .host = "10.1.2.3",
          .control_port = 31998,
          .data_port = 31999,
          .http_port = 31997,
          .lookup_port = 31996};
}

void sort_by_id(std::vector<member>& members) {
  std::sort(members.begin(), members.end(),
            [](const member& a, const member& b) { return a.id < b.id; });
}

view view_of(std::size_t members) {
  view made{.term = 7, .version = 42, .issuer = {5, 6}};
  for (std::size_t i = 1; i <= members; ++i)
    made.members.push_back(member_named("node" + std::to_string(i), i));
  sort_by_id(made.members);
  for (std::size_t i = 0; i < std::min<std::size_t>(members, 3); ++i)
    made.masters.push_back(made.members[i].name);
  return made;
}

/// Returns a view after `base`, without `base.members[without]`, which is gone.
view without_one(const view& base, std::size_t without) {
  auto next = base;
  ++next.term;
  ++next.version;
  const auto who = next.members[without];
  next.members.erase(next.members.begin() + static_cast<std::ptrdiff_t>(without));
  next.masters.clear();
  for (std::size_t i = 0; i < std::min<std::size_t>(next.members.size(), 3); ++i)
    next.masters.push_back(next.members[i].name);
  next.gone.push_back({who.name, who.host, who.control_port, 12345, departure::silent});
  return next;
}

std::string encode(const view_difference& change) {
  std::string bytes;
  byte_writer out(bytes);
  write_difference(out, change);
  return bytes;
}

std::optional<view_difference> decode(std::string_view bytes) {
  byte_reader in(bytes);
  auto change = read_difference(in);
  return in.finished() ? std::optional(std::move(change)) : std::nullopt;
}

/// Makes views of random members, each some changes away from the one before.
class random_views {
public:
  explicit random_views(std::uint64_t seed) : random_(seed) {}

  view first(std::size_t members) { return with_masters(view_of(members)); }

  view next(view now) {
    now.term += random_() % 2;
    ++now.version;
    now.issuer = {random_(), 1};
    for (auto changes = random_() % 4; changes > 0; --changes)
      change(now);
    if (random_() % 4 == 0)
      now.former_masters = random_() % 2 == 0 ? std::vector<member>{} : two_of(now);
    return with_masters(std::move(now));
  }

private:
  void change(view& now) {
    const auto at =
        now.members.begin() + static_cast<std::ptrdiff_t>(random_() % now.members.size());
    ++names_;
    switch (random_() % 5) {
    case 0:
      now.members.push_back(member_named("new" + std::to_string(names_), 1000 + names_));
      sort_by_id(now.members);
      break;
    case 1:
      at->inc = {1000 + names_, 7};
      break;
    case 2:
      at->draining = !at->draining;
      break;
    case 3:
      if (!now.gone.empty())
        now.gone.erase(now.gone.begin() + static_cast<std::ptrdiff_t>(random_() % now.gone.size()));
      break;
    default:
      if (now.members.size() == 1)
        break;
      now.gone.push_back({at->name, at->host, 1, random_(), departure::replaced});
      now.members.erase(at);
    }
  }

  std::vector<member> two_of(const view& now) {
    std::vector<member> two{now.members.front()};
    if (now.members.size() > 1)
      two.push_back(now.members.back());
    return two;
  }

  view with_masters(view now) {
    now.masters.clear();
    const auto wanted = std::min<std::size_t>(now.members.size(), 1 + random_() % 4);
    while (now.masters.size() < wanted) {
      const auto& name = now.members[random_() % now.members.size()].name;
      if (!now.is_master(name))
        now.masters.push_back(name);
    }
    return now;
  }

  std::mt19937_64 random_;
  std::size_t names_ = 0;
};

TEST(view_difference, a_difference_makes_the_later_view_of_the_earlier_one) {
  std::size_t made = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    random_views views(seed);
    auto base = views.first(1 + seed % 40);
    for (int step = 0; step < 10; ++step) {
      const auto next = views.next(base);
      ASSERT_TRUE(is_well_formed(next)) << seed;
      if (const auto change = difference_between(base, next)) {
        const auto back = decode(encode(*change));
        ASSERT_TRUE(back) << seed;
        ASSERT_EQ(*back, *change) << seed;
        const auto applied = apply(*back, base);
        ASSERT_TRUE(applied) << seed;
        ASSERT_EQ(*applied, next) << seed;
        ++made;
      }
      base = next;
    }
  }
  EXPECT_GT(made, 1500u) << "most views are few changes away from the one before";
}

TEST(view_difference, one_who_joins_leaves_drains_or_starts_again_is_all_that_travels) {
  const auto base = view_of(20);
  auto next = base;
  ++next.version;
  next.members[4].draining = true;
  auto change = difference_between(base, next);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->came, std::vector<member>{next.members[4]});
  EXPECT_TRUE(change->left.empty() && change->gone_came.empty() && !change->former_masters);
  change = difference_between(base, without_one(base, 7));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->left, std::vector<std::uint16_t>{7});
  EXPECT_TRUE(change->came.empty());
  EXPECT_EQ(change->gone_came.size(), 1u);
}

TEST(view_difference, there_is_none_where_the_whole_view_is_as_short) {
  const auto base = view_of(4);
  auto next = base;
  ++next.version;
  for (int i = 0; i < 2; ++i)
    next.members[static_cast<std::size_t>(i)].data_port = 1;
  EXPECT_FALSE(difference_between(base, next)) << "half of the members came";
  EXPECT_FALSE(difference_between(base, base)) << "the same view";
  EXPECT_FALSE(difference_between(next, base)) << "an older view";
  EXPECT_FALSE(difference_between(view{}, next)) << "nothing to begin with";
}

/// Nobody makes such a view: the gone of the base keep their order, and newer ones stand behind.
TEST(view_difference, there_is_none_where_the_gone_are_in_another_order) {
  const auto base = without_one(without_one(view_of(9), 1), 1);
  auto next = base;
  ++next.version;
  std::swap(next.gone[0], next.gone[1]);
  EXPECT_FALSE(difference_between(base, next));
}

TEST(view_difference, only_the_base_that_it_names_makes_a_view_of_it) {
  const auto base = view_of(9);
  const auto change = difference_between(base, without_one(base, 3));
  ASSERT_TRUE(change);
  ASSERT_TRUE(apply(*change, base));
  EXPECT_FALSE(apply(*change, view{}));
  auto other = base;
  ++other.version;
  EXPECT_FALSE(apply(*change, other)) << "another stamp";
  other = base;
  other.members[5].data_port = 1;
  EXPECT_FALSE(apply(*change, other)) << "the stamp of the base, and other members";
}

/// The stamp and the digest are two checks under one guard; each alone must refuse a wrong base.
TEST(view_difference, without_its_guard_a_wrong_base_makes_a_wrong_view) {
  const auto base = view_of(9);
  const auto next = without_one(base, 3);
  const auto change = difference_between(base, next);
  ASSERT_TRUE(change);
  auto later = without_one(base, 8);
  auto forged = base;
  forged.members[5].data_port = 1;
  auto bent = *change;
  std::reverse(bent.masters.begin(), bent.masters.end());
  EXPECT_FALSE(apply(*change, later) || apply(*change, forged) || apply(bent, base));
  guard_switched_off scope(guard::difference);
  for (const auto& wrong : {apply(*change, later), apply(*change, forged), apply(bent, base)}) {
    ASSERT_TRUE(wrong);
    EXPECT_EQ(wrong->stamp(), next.stamp());
    EXPECT_NE(*wrong, next);
  }
}

TEST(view_difference, every_truncation_and_every_extra_byte_is_an_error) {
  const auto base = without_one(view_of(9), 2);
  auto next = without_one(base, 3);
  next.gone.erase(next.gone.begin());
  next.former_masters = {base.members[0], base.members[1]};
  const auto change = difference_between(base, next);
  ASSERT_TRUE(change);
  const auto bytes = encode(*change);
  ASSERT_TRUE(decode(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size))) << size;
  EXPECT_FALSE(decode(bytes + '\0'));
}

/// Changes each byte of a difference in several ways. What can still be read either makes no view,
/// or the true one. (The format byte, stamp and digest are among the bytes.)
TEST(view_difference, no_changed_byte_makes_another_view) {
  const auto base = without_one(view_of(9), 2);
  auto next = without_one(base, 3);
  next.members[2].draining = true;
  const auto change = difference_between(base, next);
  ASSERT_TRUE(change);
  const auto bytes = encode(*change);
  std::size_t read = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto forged = bytes;
      forged[at] = static_cast<char>(forged[at] ^ (1 << bit));
      const auto back = decode(forged);
      if (!back)
        continue;
      ++read;
      EXPECT_EQ(encode(*back), forged);
      EXPECT_FALSE(apply(*back, base)) << at << " " << bit;
    }
  EXPECT_GT(read, 100u);
}

TEST(view_difference, indices_out_of_range_or_out_of_order_make_no_view) {
  const auto base = without_one(view_of(9), 2);
  const auto change = difference_between(base, without_one(base, 3));
  ASSERT_TRUE(change);
  const auto refused = [&](auto&& forge) {
    auto forged = *change;
    forge(forged);
    const auto back = decode(encode(forged));
    guard_switched_off scope(guard::difference);
    return !back || !apply(*back, base);
  };
  EXPECT_TRUE(refused([](auto& c) { c.left = {99}; }));
  EXPECT_TRUE(refused([](auto& c) { c.left = {4, 3}; }));
  EXPECT_TRUE(refused([](auto& c) { c.left = {3, 3}; }));
  EXPECT_TRUE(refused([](auto& c) { c.masters = {99}; }));
  EXPECT_TRUE(refused([](auto& c) { c.masters = {1, 1}; }));
  EXPECT_TRUE(refused([](auto& c) { c.masters.clear(); }));
  EXPECT_TRUE(refused([](auto& c) { c.gone_left = {1, 0}; }));
  EXPECT_TRUE(refused([](auto& c) { c.gone_came.push_back(c.gone_came[0]); })) << "gone twice";
  EXPECT_TRUE(refused([&](auto& c) { c.gone_came[0].name = base.members[0].name; }));
  EXPECT_TRUE(refused([&](auto& c) { c.came = {base.members[1], base.members[0]}; }));
  EXPECT_TRUE(refused([&](auto& c) {
    c.came = {member_named("twin", 1)};
    c.came[0].inc = base.members[0].inc;
  })) << "two members are one process";
  EXPECT_TRUE(refused([](auto& c) { c.stamp = c.base; }));
  EXPECT_FALSE(refused([](auto&) {}));
}

} // namespace
} // namespace peercache::discovery::view_difference_test
