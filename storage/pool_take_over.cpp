// How a pool gets its next owner: the object of a dead process is locked and renamed, and its
// header names the new owner.

#include "storage/pool_header.hpp"
#include "storage/pool_layout.hpp"
#include "storage/pool_leftovers.hpp"
#include "storage/pool_memory.hpp"
#include "storage/shared_object.hpp"
#include "storage/take_over_step.hpp"

#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace peercache::storage {
namespace {

/// The names of the pools that processes of this node made, living ones included.
std::vector<std::string> names_of(const pool_memory_options& options) {
  std::vector<std::string> names;
  const auto& huge = options.huge_page_directory;
  const auto start = options.object_name_start();
  const auto length = start.size() + to_string(options.owner).size();
  std::error_code failed;
  for (std::filesystem::directory_iterator
           it(huge.empty() ? shared_object::posix_directory : huge, failed),
       end;
       !failed && it != end; it.increment(failed)) {
    auto file = it->path().filename().string();
    if (file.starts_with(start) && file.size() == length)
      names.push_back(std::string{huge}.append("/").append(file));
  }
  return names;
}

/// Checks that this node can take the pool over as it is. Errors: `incompatible`, and why.
result<void> compare(const pool_header& header, std::uint64_t object_bytes,
                     const pool_memory_options& options, const pool_layout& plan,
                     const std::string& name) {
  auto found = read_layout(header, object_bytes, name);
  if (!found)
    return found.error();
  if (header.maker != options.maker())
    return {errc::incompatible, name + " is of another node or cluster"};
  if (*found != plan)
    return {errc::incompatible,
            name + " has " + std::to_string(std::uint64_t{found->granules} * 4096) +
                " bytes of pages, and now there are to be " +
                std::to_string(std::uint64_t{plan.granules} * 4096) + " (pool.size)"};
  if (!options.huge_page_directory.empty())
    return {errc::incompatible, name + " is in huge pages"};
  return {};
}

} // namespace

result<pool_memory> pool_memory::take_over(const pool_memory_options& options) {
  auto plan = plan_layout(options.size_bytes, options.huge_page_bytes);
  if (!plan)
    return plan.error();
  error why{errc::not_found, "there is no pool that a process before left"};
  for (const auto& name : names_of(options)) {
    pool_memory pool;
    pool.name_ = name;
    pool.file_ = shared_object::open(name, O_RDWR | O_NONBLOCK);
    if (pool.file_ < 0)
      continue; // The object is gone, or another user's.
    close_in_children(pool.file_);
    const auto object_bytes = abandoned_pool_bytes(pool.file_, name);
    if (!object_bytes)
      continue;
    reached(take_over_step::locked);
    if (auto mapped = pool.map(*object_bytes, pool.file_, access::write); !mapped)
      return mapped.error();
    const auto& header = *std::launder(reinterpret_cast<const pool_header*>(pool.base_));
    if (auto same = compare(header, *object_bytes, options, *plan, name); !same) {
      why = same.error();
      continue;
    }
    pool.layout_ = *plan;
    if (auto changed = pool.change_owner(options); !changed)
      return changed.error();
    remove_leftovers(options);
    return pool;
  }
  return why;
}

result<void> pool_memory::change_owner(const pool_memory_options& options) {
  auto name = options.object_name();
  if (!shared_object::rename(name_, name))
    return shared_object::failed("cannot rename", name_);
  name_ = std::move(name);
  is_owner_ = true;
  owner_ = options.owner;
  group_ = options.group;
  if (auto shared = shared_object::share_with(file_, name_, group_); !shared)
    return shared;
  reached(take_over_step::renamed);
  auto& header = *std::launder(reinterpret_cast<pool_header*>(base_));
  first_session_ = (header.first_session + sessions_per_owner) % sessions_max;
  header.first_session = first_session_;
  reached(take_over_step::sessions_moved);
  header.owner = options.owner;
  reached(take_over_step::owner_written);
  index().clear();
  reached(take_over_step::index_cleared);
  return {};
}

} // namespace peercache::storage
