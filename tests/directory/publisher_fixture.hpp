#pragma once

#include "directory/publisher.hpp"
#include "storage/lru.hpp"
#include "tests/storage/heap_pool.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace peercache::directory {

/// The publisher of the first of two members, with a small pool. The test carries out the
/// publisher's orders. Both members own every key.
class publisher_fixture : public testing::Test {
protected:
  using outcome = publish_outcome;

  publisher_fixture() {
    for (const auto* name : {"here", "there"}) {
      discovery::member member;
      member.name = name;
      member.id = node_id_of(name);
      member.inc = {1, members.size() + 1};
      members.push_back(member);
    }
    options.self = members[0].id;
    options.inc = members[0].inc;
    options.has_disk = true;
    restart();
  }

  /// Has the publisher follow its first view. The walk over the disk finds no page.
  void SetUp() override {
    follow(1);
    walk_all({});
  }

  void restart() {
    memory = std::make_unique<storage::heap_pool>(64);
    pool = std::make_unique<storage::page_pool>(memory->slots(), std::make_unique<storage::lru>(),
                                                storage::page_pool_options{});
    machine = std::make_unique<publisher>(options, *pool);
    orders.clear();
  }

  static page_key key(int number) { return storage::key_of(static_cast<std::uint64_t>(number)); }
  static std::string packed(std::initializer_list<int> numbers) {
    std::string keys;
    for (const auto number : numbers)
      link::append_record(keys, key(number));
    return keys;
  }

  /// Returns a view of these members, with connections to all of them except the member `unlinked`.
  publisher::cluster view_of(std::uint64_t version, const std::vector<discovery::member>& in,
                             node_id unlinked = {}) const {
    auto view = std::make_shared<discovery::view>();
    view->term = 1;
    view->version = version;
    view->members = in;
    std::sort(view->members.begin(), view->members.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    publisher::cluster known;
    known.ring = std::make_shared<const discovery::hash_ring>(view->members);
    known.view = std::move(view);
    known.is_linked = [unlinked](node_id id) { return id != unlinked; };
    return known;
  }
  void follow(std::uint64_t version) { machine->follow(view_of(version, members), now); }

  std::vector<storage::fill> filled(std::initializer_list<int> numbers) {
    std::vector<storage::fill> fills;
    for (const auto number : numbers) {
      std::vector<storage::evicted> victims;
      const auto slot = pool->reserve(4096, victims);
      EXPECT_TRUE(slot && victims.empty());
      const auto checksum = static_cast<std::uint64_t>(number);
      fills.push_back({*slot, key(number), 4096, checksum});
      EXPECT_TRUE(memory->slots().fill(*slot, key(number), 4096, checksum));
    }
    return fills;
  }
  publisher::tag put(std::initializer_list<int> numbers,
                     link::commit_mode mode = link::commit_mode::skip) {
    return machine->put(filled(numbers), mode, now);
  }
  /// Puts pages with these numbers, and has all owners record them.
  void put_for_good(std::initializer_list<int> numbers) {
    put(numbers, link::commit_mode::store);
    answer_all();
  }
  void evict(int number) {
    const auto page = pool->remove(key(number));
    ASSERT_TRUE(page);
    machine->left({&*page, 1});
  }
  static std::string stored(std::initializer_list<int> numbers) {
    std::string pages;
    for (const auto number : numbers)
      link::append_record(pages,
                          link::stored_page{key(number), static_cast<std::uint64_t>(number), 4096});
    return pages;
  }
  storage::resident_page held(int number) const { return pool->find(key(number)).value(); }

  /// Returns the publisher's orders of type `Order` that were given since the last call.
  template <class Order>
  std::vector<Order> take() {
    collect();
    std::vector<Order> found;
    std::vector<publisher::order> others;
    for (auto& each : orders)
      if (auto* one = std::get_if<Order>(&each))
        found.push_back(std::move(*one));
      else
        others.push_back(std::move(each));
    orders = std::move(others);
    return found;
  }
  void collect() {
    for (auto& each : machine->take_orders())
      orders.push_back(std::move(each));
  }

  /// Takes the publisher's orders to tell. There must be exactly one, and it must name this owner.
  publisher::tell only_tell(node_id owner) {
    const auto told = take<publisher::tell>();
    EXPECT_EQ(told.size(), 1u);
    EXPECT_EQ(told.at(0).owner, owner);
    return told[0];
  }
  void answer(const publisher::tell& order, outcome said) {
    const auto count = order.bytes.size() / wire::publish_record_bytes;
    machine->answered(order.id, std::string(count, static_cast<char>(said)), now);
  }
  /// Has the owners accept what they are to be told. Returns the number of records.
  std::size_t records_told() {
    std::size_t count = 0;
    for (const auto& order : take<publisher::tell>()) {
      count += records(order).size();
      answer(order, outcome::accepted);
    }
    return count;
  }
  void fail(const std::vector<publisher::tell>& all) {
    for (const auto& order : all)
      machine->failed(order.id, now);
  }
  /// Has every owner carry out and answer the publisher's orders, until none are left.
  void answer_all() {
    for (bool more = true; more;) {
      const auto tells = take<publisher::tell>();
      const auto withdrawals = take<publisher::take_back>();
      for (const auto& order : tells)
        answer(order, outcome::accepted);
      for (const auto& order : withdrawals)
        machine->answered(order.id, std::uint64_t{1}, now);
      more = !tells.empty() || !withdrawals.empty();
    }
  }
  /// Answers all `walk_disk` orders: the disk has these pages (packed stored_page).
  void walk_all(const std::string& pages) {
    for (const auto& order : take<publisher::walk_disk>())
      machine->walked(order.id, pages, 0);
  }
  void pass(std::chrono::milliseconds time) {
    now += time;
    machine->tick(now);
  }

  static std::vector<publish_record> records(const publisher::tell& order) {
    publish_reader reader(order.bytes);
    std::vector<publish_record> all;
    for (publish_record record; reader.next(record);)
      all.push_back(record);
    return all;
  }
  static std::vector<withdraw_record> records(const publisher::take_back& order) {
    withdraw_reader reader(order.bytes);
    std::vector<withdraw_record> all;
    for (withdraw_record record; reader.next(record);)
      all.push_back(record);
    return all;
  }
  static page_status status(const publisher::settled& said, std::size_t page = 0) {
    return static_cast<page_status>(said.statuses.at(page));
  }

  std::vector<discovery::member> members;
  publisher_options options;
  publisher::time_point now{std::chrono::hours(1)};
  std::unique_ptr<storage::heap_pool> memory;
  std::unique_ptr<storage::page_pool> pool;
  std::unique_ptr<publisher> machine;
  std::vector<publisher::order> orders; ///< Orders that the publisher gave and no test took.
};

} // namespace peercache::directory
