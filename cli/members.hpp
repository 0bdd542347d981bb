#pragma once

#include "cli/command.hpp"
#include "client/admin_client.hpp"
#include "discovery/view.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// Functions that ask the members of a cluster. Threads: each may be called by any; each waits at
/// most the options' timeout per member.
namespace peercache::cli {

/// The view of the node at `--node`.
result<discovery::view> ask_view(const global_options& globals);

/// The members called `name`, or all when it is empty, in the natural order of their names. Errors:
/// not_found when nobody is called so, and those of `ask_view`.
result<std::vector<discovery::member>> members_named(const global_options& globals,
                                                     const std::string& name);

/// Connects to the control port of a member.
result<std::unique_ptr<client::admin_client>> connect_member(const discovery::member& member,
                                                             const global_options& globals);

/// Calls `work(i)` for each i below `count`, for several at a time: in threads that end with the
/// call.
void several_at_a_time(std::size_t count, const std::function<void(std::size_t)>& work);

/// Connects to several members at a time, so that a frozen one does not hold up the others, and
/// calls `ask(i, admin)` for each that answers; `i` is its place in `members`. The calls are made
/// by several threads at once.
void ask_members(const std::vector<discovery::member>& members, const global_options& globals,
                 const std::function<void(std::size_t, client::admin_client&)>& ask);

} // namespace peercache::cli
