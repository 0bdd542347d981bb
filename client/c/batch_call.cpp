#include "client/c/batch_call.hpp"

#include "client/c/growing_struct.hpp"

#include <algorithm>
#include <cstring>

namespace peercache::c_api {
namespace {

// The number of each status is a part of the ABI, whatever becomes of `page_status`.
constexpr bool same(page_status ours, peercache_status theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(page_status::hit, PEERCACHE_STATUS_HIT));
static_assert(same(page_status::stored, PEERCACHE_STATUS_STORED));
static_assert(same(page_status::duplicate, PEERCACHE_STATUS_DUPLICATE));
static_assert(same(page_status::not_found, PEERCACHE_STATUS_NOT_FOUND));
static_assert(same(page_status::stale, PEERCACHE_STATUS_STALE));
static_assert(same(page_status::holder_gone, PEERCACHE_STATUS_HOLDER_GONE));
static_assert(same(page_status::wrong_key, PEERCACHE_STATUS_WRONG_KEY));
static_assert(same(page_status::corrupt, PEERCACHE_STATUS_CORRUPT));
static_assert(same(page_status::timed_out, PEERCACHE_STATUS_TIMED_OUT));
static_assert(same(page_status::unreachable, PEERCACHE_STATUS_UNREACHABLE));
static_assert(same(page_status::breaker_open, PEERCACHE_STATUS_BREAKER_OPEN));
static_assert(same(page_status::refused, PEERCACHE_STATUS_REFUSED));
static_assert(same(page_status::no_space, PEERCACHE_STATUS_NO_SPACE));
static_assert(same(page_status::bad_size, PEERCACHE_STATUS_BAD_SIZE));
static_assert(same(page_status::closed, PEERCACHE_STATUS_CLOSED));
static_assert(client::exists_hold::duration_max.count() == PEERCACHE_HOLD_MS_MAX);
static_assert(static_cast<int>(page_origin::own_host) == PEERCACHE_ORIGIN_OWN_HOST);
static_assert(static_cast<int>(page_origin::other_host) == PEERCACHE_ORIGIN_OTHER_HOST);
static_assert(static_cast<int>(page_origin::disk) == PEERCACHE_ORIGIN_DISK);
static_assert(static_cast<int>(page_origin::other_host_rdma) == PEERCACHE_ORIGIN_OTHER_HOST_RDMA);

// Bytes of each struct in the first release; the oldest programs hand over structs of these sizes.
constexpr std::size_t oldest_batch = 48;
constexpr std::size_t oldest_page = 48;
constexpr std::size_t oldest_result = 16;
static_assert(sizeof(peercache_batch) >= oldest_batch && sizeof(peercache_page) >= oldest_page &&
              sizeof(peercache_result) >= oldest_result);

bool moves_bytes(int operation) noexcept {
  return operation == PEERCACHE_OPERATION_SET || operation == PEERCACHE_OPERATION_GET;
}

} // namespace

client::deadline deadline_in(std::uint32_t deadline_ms,
                             std::chrono::milliseconds default_timeout) noexcept {
  const auto within = deadline_ms == PEERCACHE_DEADLINE_DEFAULT
                          ? default_timeout
                          : std::chrono::milliseconds(deadline_ms);
  return std::chrono::steady_clock::now() + within;
}

page_key key_of(const peercache_key& key) noexcept {
  page_key same;
  static_assert(sizeof same.bytes == sizeof key.bytes);
  std::memcpy(same.bytes.data(), key.bytes, sizeof key.bytes);
  return same;
}

const peercache_page& batch_call::page(std::size_t index) const noexcept {
  const auto* first = reinterpret_cast<const char*>(batch_.pages);
  return *reinterpret_cast<const peercache_page*>(first + index * batch_.page_size);
}

int batch_call::check(int operation) const {
  if (operation < PEERCACHE_OPERATION_SET || operation > PEERCACHE_OPERATION_REMOVE)
    return refuse_argument("operation", " is none of enum peercache_operation");
  if (const int code = check_size(batch_.page_size, oldest_page, "batch.page_size"))
    return code;
  if (const int code = check_size(batch_.result_size, oldest_result, "batch.result_size"))
    return code;
  if (batch_.count != 0 && (batch_.pages == nullptr || batch_.results == nullptr))
    return refuse_argument("batch", ": pages or results is NULL");
  const auto flags = operation == PEERCACHE_OPERATION_REMOVE ? PEERCACHE_REMOVE_EVERYWHERE : 0u;
  if ((batch_.flags & ~flags) != 0 || batch_.reserved != 0)
    return refuse_argument("batch", ": a flag that this call has not, or reserved is not 0");
  if (operation != PEERCACHE_OPERATION_EXISTS && (batch_.hold_ms != 0 || batch_.hold_group != 0))
    return refuse_argument("batch", ": only exists holds pages");
  if (batch_.hold_ms > PEERCACHE_HOLD_MS_MAX)
    return refuse_argument("batch.hold_ms", " is above PEERCACHE_HOLD_MS_MAX");
  return PEERCACHE_OK;
}

int batch_call::take_page(std::size_t index) {
  const auto& given = page(index);
  if (given.reserved != 0 || !is_zero(&given, sizeof given, batch_.page_size))
    return refuse_argument("page",
                           ": reserved, or a member that this library does not know, is not 0");
  keys_.push_back(key_of(given.key));
  if (!moves_bytes(operation_))
    return PEERCACHE_OK;
  if (given.parts == nullptr && given.part_count != 0)
    return refuse_argument("page", ": parts is NULL");
  first_parts_.push_back(parts_.size());
  for (std::uint32_t i = 0; i < given.part_count; ++i) {
    const auto& part = given.parts[i];
    if (part.data == nullptr || part.reserved != 0)
      return refuse_argument("part", ": data is NULL, or reserved is not 0");
    parts_.push_back({static_cast<std::byte*>(part.data), part.bytes});
  }
  return PEERCACHE_OK;
}

int batch_call::take(int operation, const peercache_batch* given,
                     std::chrono::milliseconds default_timeout) {
  if (const int code = take_struct(given, batch_, oldest_batch, "batch"))
    return code;
  until_ = deadline_in(batch_.deadline_ms, default_timeout);
  if (const int code = check(operation))
    return code;
  operation_ = operation;
  keys_.reserve(batch_.count);
  for (std::size_t i = 0; i < batch_.count; ++i)
    if (const int code = take_page(i))
      return code;
  first_parts_.push_back(parts_.size());
  results_.resize(batch_.count);
  return PEERCACHE_OK;
}

template <class Page, class Part>
std::vector<Page> batch_call::pages_of(const std::vector<Part>& parts) const {
  std::vector<Page> pages;
  pages.reserve(keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i)
    pages.push_back({keys_[i], std::span{parts}.subspan(first_parts_[i],
                                                        first_parts_[i + 1] - first_parts_[i])});
  return pages;
}

int batch_call::run(client::cache_client& cache) {
  switch (operation_) {
  case PEERCACHE_OPERATION_SET: {
    std::vector<client::const_part> parts;
    parts.reserve(parts_.size());
    for (const auto& part : parts_)
      parts.push_back({part.data, part.bytes});
    cache.set(pages_of<client::set_page>(parts), results_, until_);
    break;
  }
  case PEERCACHE_OPERATION_GET:
    cache.get(pages_of<client::get_page>(parts_), results_, until_);
    break;
  case PEERCACHE_OPERATION_EXISTS:
    cache.exists(
        keys_, results_, until_,
        {std::chrono::milliseconds(batch_.hold_ms), std::max<std::uint32_t>(batch_.hold_group, 1)});
    break;
  default:
    cache.remove(keys_, results_, until_,
                 (batch_.flags & PEERCACHE_REMOVE_EVERYWHERE) != 0
                     ? client::remove_scope::every_node
                     : client::remove_scope::holders);
  }
  give_results();
  return PEERCACHE_OK;
}

void batch_call::give_results() const noexcept {
  auto* wanted = reinterpret_cast<char*>(batch_.results);
  for (const auto& result : results_) {
    const peercache_result own{static_cast<std::uint32_t>(result.status),
                               static_cast<std::uint32_t>(result.origin),
                               result.length_bytes,
                               0,
                               result.held ? 1u : 0u,
                               0};
    give_struct(own, wanted, batch_.result_size);
    wanted += batch_.result_size;
  }
}

} // namespace peercache::c_api
