#include "client/set_call.hpp"

#include "actors/protocol/pool_wire.hpp"
#include "common/checksum.hpp"
#include "common/copy.hpp"

#include <algorithm>
#include <memory>

namespace peercache::client {
namespace {

using actors::append_record;
using actors::no_slot;

/// What one client may keep reserved between two sets: some batches, so that the next sets need not
/// wait for the acknowledgement of this one.
constexpr std::uint64_t lease_bytes_max = 32u << 20;
constexpr std::uint64_t lease_share_of_pool = 128;
constexpr std::uint64_t lease_batches = 8;

} // namespace

set_call::set_call(cache_client::impl& client, std::span<const set_page> pages,
                   std::span<page_result> results, deadline until)
    : client_(client), pages_(pages), results_(results), until_(until),
      pool_(client.session.board().pool()), slots_(pages.size(), no_slot) {}

void set_call::run() {
  sort_out();
  if (!pool_)
    return fail_pending(page_status::unreachable);
  if (bytes_ == 0)
    return;
  if (!client_.session.board().window.enter(bytes_, until_))
    return fail_pending(page_status::refused);
  take_slots();
  filled_.reserve(pages_.size() * sizeof(actors::filled_slot));
  for (std::uint32_t i = 0; i < pages_.size(); ++i)
    if (results_[i].status == page_status::pending)
      copy_in(i);
  copy_fence();
  commit();
}

void set_call::sort_out() {
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    auto& result = results_[i];
    result = {};
    result.length_bytes = length_of(pages_[i].parts);
    if (result.length_bytes == 0)
      result.status = page_status::bad_size;
    else if (already_here(pages_[i].key, result.length_bytes))
      result.status = page_status::duplicate;
    else
      bytes_ += result.length_bytes;
  }
}

bool set_call::already_here(const page_key& key, std::uint32_t length_bytes) {
  // Only what this host's own slot table confirms now: a remembered location elsewhere may be out
  // of date. The directory finds those duplicates when the page is published.
  if (client_.options.duplicate == duplicate_mode::store || !pool_)
    return false;
  auto known = client_.locations.find(key);
  return known && known->owner == pool_->node.inc &&
         pool_->slots.check(known->slot, known->gen, key, length_bytes) == page_status::hit;
}

void set_call::take_slots() {
  std::vector<std::uint32_t> without;
  for (std::uint32_t i = 0; i < pages_.size(); ++i)
    if (results_[i].status == page_status::pending &&
        !pool_->leases.take(slot_leases::granules_of(results_[i].length_bytes), slots_[i]))
      without.push_back(i);
  if (!without.empty())
    reserve(without);
}

void set_call::reserve(const std::vector<std::uint32_t>& indices) {
  std::string lengths;
  for (auto index : indices)
    append_record(lengths, results_[index].length_bytes);
  auto request = std::make_shared<slot_request>(pool_, std::move(lengths));
  caf::anon_send(client_.session.committer(), actors::reserve_atom_v, slot_request_ptr{request});
  auto answer = request->wait(until_);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    auto slot = (i + 1) * sizeof(slot_id) <= answer.slots.size()
                    ? actors::record_at<slot_id>(answer.slots, i)
                    : no_slot;
    slots_[indices[i]] = slot;
    if (slot == no_slot)
      results_[indices[i]].status =
          answer.why_not == page_status::pending ? page_status::no_space : answer.why_not;
  }
}

void set_call::copy_in(std::uint32_t index) {
  const auto& page = pages_[index];
  auto& result = results_[index];
  auto to = pool_->slots.bytes(slots_[index], result.length_bytes);
  actors::filled_slot filled;
  filled.key = page.key;
  filled.slot = slots_[index];
  filled.length_bytes = result.length_bytes;
  bool digest_wanted = client_.options.checksum;
  if (page.parts.size() == 1 && digest_wanted) {
    filled.checksum = copy_page_and_checksum(to, {page.parts[0].data, page.parts[0].bytes});
  } else if (page.parts.size() == 1) {
    copy_page(to, {page.parts[0].data, page.parts[0].bytes});
  } else {
    checksum_stream stream;
    std::size_t offset = 0;
    for (const auto& part : page.parts) {
      copy_part(to.subspan(offset, part.bytes), {part.data, part.bytes},
                digest_wanted ? &stream : nullptr);
      offset += part.bytes;
    }
    if (digest_wanted)
      filled.checksum = stream.digest();
  }
  append_record(filled_, filled);
  result.status = page_status::stored;
  result.origin = page_origin::own_host;
  client_.totals.set_bytes.fetch_add(result.length_bytes, std::memory_order_relaxed);
}

std::string set_call::next_lengths() {
  auto length = actors::record_at<actors::filled_slot>(filled_, 0).length_bytes;
  auto granules = slot_leases::granules_of(length);
  auto page_bytes = std::uint64_t{granules} * limits::granule_bytes;
  auto lease_bytes = std::min(lease_bytes_max, pool_->memory.page_bytes() / lease_share_of_pool);
  auto pages = filled_.size() / sizeof(actors::filled_slot);
  auto target = std::min<std::uint64_t>(pages * lease_batches, lease_bytes / page_bytes);
  std::string lengths;
  for (auto more = pool_->leases.ask_for(granules, target); more > 0; --more)
    append_record(lengths, granules * limits::granule_bytes);
  return lengths;
}

void set_call::commit() {
  if (filled_.empty()) {
    client_.session.board().window.leave(bytes_, 1, 0);
    return;
  }
  auto job = std::make_shared<commit_job>();
  job->next_lengths = next_lengths();
  job->pool = pool_;
  job->filled = std::move(filled_);
  job->bytes = bytes_;
  job->skip_duplicates = client_.options.duplicate == duplicate_mode::skip;
  caf::anon_send(client_.session.committer(), actors::commit_atom_v, commit_job_ptr{job});
}

void set_call::fail_pending(page_status reason) {
  for (auto& result : results_)
    if (result.status == page_status::pending)
      result.status = reason;
}

} // namespace peercache::client
