#include "actors/membership/seed_names.hpp"
#include "actors/node/node_options.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace peercache::actors::seed_names_test {
namespace {

using discovery::endpoint;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

const endpoint late{"late", 1};
const endpoint never{"never", 2};
constexpr milliseconds pause{1};

error unknown() {
  return {errc::invalid_argument, "unknown"};
}

/// Takes answers for up to 10 s, until one is an address of `seed`. Returns the address, or an
/// empty text.
std::string address_of(seed_names& names, const endpoint& seed) {
  for (const auto until = steady_clock::now() + std::chrono::seconds(10);
       steady_clock::now() < until; std::this_thread::yield()) {
    const auto news = names.take();
    if (const auto at = news.find(seed); at != news.end() && at->second)
      return *at->second;
  }
  return {};
}

} // namespace

TEST(seeds_of_a_configuration, that_are_numbers_have_the_form_in_which_members_are_compared) {
  const auto seeds = resolve_seeds({{"FD00:0::01", 1}, {"127.1", 2}, {"10.0.0.3", 3}});
  EXPECT_TRUE(seeds.lacking.empty());
  EXPECT_EQ(seeds.all, (std::vector<endpoint>{{"fd00::1", 1}, {"127.0.0.1", 2}, {"10.0.0.3", 3}}));
}

TEST(seed_names, a_name_is_looked_up_until_it_has_an_address_and_the_others_further) {
  struct counters {
    std::atomic<int> late{0}, never{0};
    std::atomic<bool> may_answer{false};
  };
  // Shared, because the resolving thread may outlive this test.
  const auto asked = std::make_shared<counters>();
  const auto resolve = [asked](const std::string& name) -> result<std::string> {
    if (name == "never") {
      ++asked->never;
      return unknown();
    }
    if (!asked->may_answer || ++asked->late < 3)
      return unknown();
    return std::string("10.0.0.1");
  };
  seed_names names({{late, unknown()}, {never, unknown()}}, resolve, pause);
  EXPECT_EQ(names.take_within(std::chrono::seconds(10)).size(), 2u) << "each was looked up once";
  asked->may_answer = true;
  EXPECT_EQ(address_of(names, late), "10.0.0.1");
  const int until = asked->never + 3;
  while (asked->never < until)
    std::this_thread::yield();
  EXPECT_FALSE(names.take().contains(late));
  EXPECT_EQ(asked->late, 3) << "a name that has an address is not asked for again";
}

TEST(seed_names, nobody_waits_for_a_look_up_that_hangs) {
  struct gate {
    std::promise<void> asked, open, left;
  };
  const auto shared = std::make_shared<gate>();
  {
    seed_names names(
        {{late, unknown()}},
        [shared](const std::string&) -> result<std::string> {
          shared->asked.set_value();
          shared->open.get_future().wait();
          shared->left.set_value();
          return unknown();
        },
        pause);
    shared->asked.get_future().wait();
  }
  shared->open.set_value();
  shared->left.get_future().wait();
}

} // namespace peercache::actors::seed_names_test
