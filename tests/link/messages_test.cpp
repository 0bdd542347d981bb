#include "link/protocol/message_types.hpp"

#include "tests/support/actor_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace peercache::link::messages {
namespace {

/// Defines a function that returns all fields of a struct, independent of the struct's `inspect`.
/// Does not compile unless it is given one name for each field.
#define FIELDS_OF(type, ...)                                                                       \
  auto fields_of(type& x) {                                                                        \
    auto& [__VA_ARGS__] = x;                                                                       \
    return std::tie(__VA_ARGS__);                                                                  \
  }

FIELDS_OF(peer_welcome, a, b, c, d)
FIELDS_OF(session_welcome, a, b, c, d, e, f, g)
FIELDS_OF(directory_report, a)
FIELDS_OF(disk_report, a, b, c, d, e, f, g, h)
FIELDS_OF(clear_report, a, b, c, d, e)
FIELDS_OF(drain_report, a, b, c, d)
FIELDS_OF(membership_report, a, b)
FIELDS_OF(node_fault, a, b, c, d)
FIELDS_OF(links_report, a)
FIELDS_OF(node_event, a, b, c, d, e, f)
FIELDS_OF(history_report, a, b)
FIELDS_OF(session_space, a, b, c, d, e)
FIELDS_OF(session_row, a, b, c, d, e, f, g)
FIELDS_OF(sessions_report, a)
FIELDS_OF(failed_page, a, b, c, d, e)
FIELDS_OF(space_calls, a, b, c, d, e, f, g)
FIELDS_OF(slow_call, a, b, c, d, e, f, g, h, i)
FIELDS_OF(space_use, a, b)
FIELDS_OF(call_report, a, b, c, d, e, f, g)
FIELDS_OF(calls_report, a)
FIELDS_OF(lost_page, a, b, c)
FIELDS_OF(lost_report, a)
FIELDS_OF(counted_page, a, b, c, d)
FIELDS_OF(counted_space, a, b, c)
FIELDS_OF(page_census, a, b, c, d, e)
FIELDS_OF(node_report, a, b, c, d, e, f, g, h, i, j, k, l, m)
#undef FIELDS_OF

/// Treats samples as one field; tests/link/samples_wire_test.cpp tests what is in them.
auto fields_of(metrics::samples& x) {
  return std::tie(x);
}
bool same(metrics::samples& a, metrics::samples& b) {
  return a.values() == b.values();
}

template <class T>
concept message = requires(T& x) {
  fields_of(x);
};

template <class T>
concept actor_handle = requires(const T& x) {
  x.address();
};

/// Gives each field a value that is not the default and that no other field of the message has.
class filler {
public:
  explicit filler(caf::actor some) : some_(std::move(some)) {}

  void fill(bool& x) { x = true; }
  void fill(metrics::samples& x) { x.set(metrics::metric::pool_pages, number()); }
  void fill(double& x) { x = 0.25 + number(); }
  void fill(std::string& x) { x = "text " + std::to_string(number()); }
  template <std::integral T>
  void fill(T& x) {
    x = static_cast<T>(number());
  }
  template <actor_handle T>
  void fill(T& x) {
    x = caf::actor_cast<T>(some_);
  }
  template <class T>
  void fill(std::vector<T>& x) {
    x.resize(2);
    for (auto& one : x)
      fill(one);
  }
  template <class T>
  void fill(std::map<std::string, T>& x) {
    std::string name;
    fill(name);
    fill(x[name]);
  }
  template <message T>
  void fill(T& x) {
    std::apply([this](auto&... field) { (this->fill(field), ...); }, fields_of(x));
  }

private:
  unsigned number() { return ++numbers_; }

  caf::actor some_;
  unsigned numbers_ = 0;
};

template <class T>
bool same(T& a, T& b) {
  return a == b;
}
template <message T>
bool same(T& a, T& b);
template <message T>
bool same(std::map<std::string, T>& a, std::map<std::string, T>& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](auto& entry) {
           return b.contains(entry.first) && same(entry.second, b[entry.first]);
         });
}
template <message T>
bool same(std::vector<T>& a, std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](auto& left, auto& right) { return same(left, right); });
}
template <message T>
constexpr std::size_t field_count = std::tuple_size_v<decltype(fields_of(std::declval<T&>()))>;

template <message T>
std::size_t equal_fields(T& a, T& b) {
  auto left = fields_of(a);
  auto right = fields_of(b);
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (std::size_t{same(std::get<I>(left), std::get<I>(right))} + ...);
  }
  (std::make_index_sequence<field_count<T>>());
}
template <message T>
bool same(T& a, T& b) {
  return equal_fields(a, b) == field_count<T>;
}

template <class T>
class message_type : public test::actor_fixture {};

using types = testing::Types<peer_welcome, session_welcome, metrics::samples, directory_report,
                             node_report, disk_report, clear_report, drain_report,
                             membership_report, links_report, history_report, sessions_report,
                             call_report, calls_report, lost_report, page_census>;
template <class... T>
constexpr std::size_t count_of(const testing::Types<T...>*) {
  return sizeof...(T);
}
/// Number of types in the block of message types that are handles of actors, which this test leaves
/// out.
constexpr std::size_t handles = 4;
static_assert(count_of(static_cast<types*>(nullptr)) + handles ==
                  caf::id_block::peercache::end - caf::id_block::peercache::begin,
              "each message of link/protocol/message_types.hpp is tested here");

struct its_name {
  template <class T>
  static std::string GetName(int /*number*/) {
    const std::string name{caf::type_name<T>::value};
    return name.substr(name.rfind(':') + 1);
  }
};
TYPED_TEST_SUITE(message_type, types, its_name);

TYPED_TEST(message_type, keeps_each_field_on_its_way) {
  auto& system = this->system;
  TypeParam sent;
  TypeParam empty;
  filler(caf::actor_cast<caf::actor>(this->self)).fill(sent);
  EXPECT_EQ(equal_fields(sent, empty), 0u);
  std::vector<char> bytes;
  caf::binary_serializer sink(system, bytes);
  ASSERT_FALSE(sink(sent));
  TypeParam received;
  caf::binary_deserializer source(system, bytes);
  ASSERT_FALSE(source(received));
  EXPECT_EQ(equal_fields(sent, received), field_count<TypeParam>);
}

} // namespace
} // namespace peercache::link::messages
