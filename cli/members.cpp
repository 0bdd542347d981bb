#include "cli/members.hpp"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>
#include <thread>

namespace peercache::cli {

namespace {

/// How many members are asked at a time: each connection has an actor system of its own.
constexpr std::size_t asked_at_once = 8;

} // namespace

result<discovery::view> ask_view(const global_options& globals) {
  auto admin = connect_admin(globals);
  if (!admin)
    return admin.error();
  return (*admin)->view();
}

result<std::vector<discovery::member>> members_named(const global_options& globals,
                                                     const std::string& name) {
  auto view = ask_view(globals);
  if (!view)
    return view.error();
  auto members = view->members;
  std::erase_if(members, [&](const discovery::member& member) {
    return !name.empty() && member.name != name;
  });
  if (members.empty())
    return error{errc::not_found,
                 fmt::format("no node is called '{}'; `peercache nodes` lists them", name)};
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return discovery::natural_less(a.name, b.name); });
  return members;
}

result<std::unique_ptr<client::admin_client>> connect_member(const discovery::member& member,
                                                             const global_options& globals) {
  return client::admin_client::connect(member.host, member.control_port, globals.cluster,
                                       globals.timeout(), globals.tls);
}

void several_at_a_time(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  const auto take_turns = [&] {
    for (auto i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::jthread> askers;
  for (std::size_t i = 0; i < std::min(asked_at_once, count); ++i)
    askers.emplace_back(take_turns);
}

void ask_members(const std::vector<discovery::member>& members, const global_options& globals,
                 const std::function<void(std::size_t, client::admin_client&)>& ask) {
  several_at_a_time(members.size(), [&](std::size_t i) {
    if (auto admin = connect_member(members[i], globals))
      ask(i, **admin);
  });
}

} // namespace peercache::cli
