#include "client/calls/mirror_call.hpp"

#include "common/assert.hpp"
#include "common/checksum.hpp"
#include "common/copy.hpp"
#include "common/guards.hpp"
#include "link/protocol/pool_wire.hpp"

#include <algorithm>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// Extra time that a get may spend waiting for the slots of its first mirrored pages; slots of
/// later pages are leased.
constexpr auto slot_patience = 5ms;
/// Most bytes that one call mirrors.
constexpr std::uint64_t mirrored_bytes_max = 16u << 20;
/// Number of slots that are leased ahead, for pages of the last page's length.
constexpr std::uint64_t leases_wanted = 4;
constexpr std::uint32_t looks_for_own_copy = 4;

} // namespace

mirror_call::mirror_call(client_impl& client, own_pool_ptr pool, deadline until)
    : client_(client), pool_(std::move(pool)), until_(until) {}

void mirror_call::consider(const get_page& page, std::uint32_t length_bytes,
                           std::uint64_t checksum) {
  const auto mode = pool_ ? pool_->mirror : config::mirror_mode::off;
  if (mode == config::mirror_mode::off)
    return;
  const auto now = steady_clock::now();
  const bool mirrored = client_.heat.is_mirrored(page.key, now);
  const auto reads = client_.heat.count_read(page.key, now);
  if (mirrored) {
    // The cached location is dropped, so that the next look-up may find this host's copy. After
    // some such reads the location is kept, because the pool had no room for the copy.
    if (reads <= looks_for_own_copy)
      client_.locations.erase(page.key);
    return;
  }
  if (checksum == 0 || (mode == config::mirror_mode::hot && reads < page_heat::hot_reads) ||
      bytes_ + length_bytes > mirrored_bytes_max)
    return;
  bytes_ += length_bytes;
  chosen_.push_back({&page, length_bytes, checksum, link::no_slot});
}

void mirror_call::take_slots() {
  std::string lengths;
  std::vector<candidate*> without;
  for (auto& each : chosen_)
    if (!pool_->leases.take(limits::granules_of(each.length_bytes), each.slot)) {
      link::append_record(lengths, each.length_bytes);
      without.push_back(&each);
    }
  if (!without.empty()) {
    auto request = std::make_shared<slot_request>(pool_, std::move(lengths));
    caf::anon_send(client_.session.actor(), link::reserve_atom_v, request);
    auto answer = request->wait(std::min(until_, steady_clock::now() + slot_patience));
    auto count = link::record_count<slot_id>(answer.slots).value_or(0);
    for (std::size_t i = 0; i < std::min(count, without.size()); ++i)
      without[i]->slot = link::record_at<slot_id>(answer.slots, i);
  }
  std::erase_if(chosen_, [](const candidate& each) { return each.slot == link::no_slot; });
}

bool mirror_call::copy_compared(std::span<const page_part> parts, std::span<std::byte> to,
                                std::uint64_t checksum) {
  checksum_stream stream;
  std::size_t offset = 0;
  for (const auto& part : parts) {
    copy_part(to.subspan(offset, part.bytes), {part.data, part.bytes}, &stream);
    offset += part.bytes;
  }
  PEERCACHE_ASSERT(offset == to.size());
  return stream.digest() == checksum || !guard_on(guard::checksum);
}

void mirror_call::run() {
  if (chosen_.empty() || steady_clock::now() >= until_)
    return;
  set_window::stay stay{client_.session.board().window, bytes_, steady_clock::now()};
  if (!stay.entered())
    return;
  take_slots();
  pending_commit job;
  std::string abandoned;
  std::vector<link::filled_slot> copied;
  for (const auto& each : chosen_) {
    PEERCACHE_ASSERT(each.slot != link::no_slot && each.checksum != 0);
    const auto to = pool_->bytes_to_fill(each.slot, each.length_bytes);
    if (!copy_compared(each.page->parts, to, each.checksum)) {
      link::append_record(abandoned, each.slot);
      continue;
    }
    link::filled_slot filled;
    filled.key = each.page->key;
    filled.slot = each.slot;
    filled.length_bytes = each.length_bytes;
    filled.checksum = each.checksum;
    copied.push_back(filled);
  }
  copy_fence();
  for (const auto& filled : copied) {
    if (!pool_->make_readable(filled)) {
      link::append_record(abandoned, filled.slot);
      continue;
    }
    link::append_record(job.filled, filled);
    client_.heat.mark_mirrored(filled.key, steady_clock::now());
    client_.locations.erase(filled.key);
  }
  if (!abandoned.empty())
    caf::anon_send(pool_->gateway, link::abandon_atom_v, pool_->session, std::move(abandoned));
  if (job.filled.empty())
    return;
  const auto granules = limits::granules_of(chosen_.back().length_bytes);
  for (auto more = pool_->leases.ask_for(granules, leases_wanted, leases_wanted); more > 0; --more)
    link::append_record(job.next_lengths, granules * limits::granule_bytes);
  job.pool = pool_;
  job.bytes = bytes_;
  job.mode = link::commit_mode::mirror;
  client_.queue_commit(std::move(job), stay);
}

} // namespace peercache::client
