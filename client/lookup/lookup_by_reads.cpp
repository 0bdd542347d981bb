#include "client/lookup/lookup_by_reads.hpp"

#include "common/assert.hpp"
#include "directory/wire.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace peercache::client {
namespace {

using namespace std::chrono_literals;
using directory::remote_search;
using directory::shard_unit_bytes;
using std::chrono::steady_clock;

/// A READ that has not come by then is of no use: a look-up takes microseconds, and its other
/// owners are asked after some milliseconds.
constexpr auto read_patience = 100ms;
/// How often a READ that takes long is looked at.
constexpr auto look_again = 1ms;
/// A READ that somebody gave up after this time or later is held against the shard.
constexpr auto hangs_after = 3ms;
/// Rounds in which the calling thread works itself: as many as a look-up takes.
constexpr int rounds_alone = 2;

std::vector<page_key> keys_of(std::string_view request) {
  directory::lookup_reader reader(request);
  std::vector<page_key> keys(reader.count());
  for (auto& key : keys)
    reader.next(key);
  PEERCACHE_ASSERT(reader.ok()); // The client's plan made the request.
  return keys;
}

} // namespace

lookup_by_reads::lookup_by_reads(remote_shards& shards, lookup_channels& channels,
                                 const link::peer& owner, remote_search::asking how, bool alone)
    : shards_(shards), channels_(channels), owner_(owner), how_(std::move(how)), alone_(alone) {}

lookup_by_reads::~lookup_by_reads() {
  end_reads();
}

/// Waits until no READ can land in the memory any longer.
void lookup_by_reads::end_reads() noexcept {
  if (lane_ == nullptr)
    return;
  if (!batch_.complete()) {
    const auto now = steady_clock::now();
    if (now - (batch_.deadline - read_patience) >= hangs_after)
      shards_.failed(owner_.self.inc, now);
    lane_->cancel(batch_);
  }
  batch_.wait();
  lane_ = nullptr;
}

lookup_carrier::state lookup_by_reads::start(std::string_view request) {
  request_ = request;
  memory_ = shards_.take_memory();
  if (!memory_)
    return ask_node(); // More look-ups at once than there is memory for.
  batch_.peer = shards_.endpoint_of(owner_);
  batch_.judged = false;
  known_ = shards_.known(owner_.self.inc);
  search_.emplace(keys_of(request), known_, std::move(how_),
                  remote_search::memory{&shards_.lines(), owner_.self.inc, steady_clock::now()});
  return read_units() ? go_on() : ask_node();
}

/// Begins the READs of a round. False: no rail can be used.
bool lookup_by_reads::read_units() {
  batch_.pages.clear();
  batch_.parts.clear();
  batch_.pages.reserve(search_->units().size());
  batch_.parts.reserve(search_->units().size());
  for (const auto unit : search_->units()) {
    rdma::page_read read;
    read.source =
        rdma::memory_rows::one_piece(std::uint64_t{unit} * shard_unit_bytes, shard_unit_bytes);
    read.length_bytes = shard_unit_bytes;
    read.first_part = static_cast<std::uint32_t>(batch_.parts.size());
    read.part_count = 1;
    batch_.pages.push_back(read);
    batch_.parts.push_back({memory_.bytes().data() + batch_.parts.size() * shard_unit_bytes,
                            static_cast<std::uint32_t>(shard_unit_bytes)});
  }
  lane_ = shards_.lane();
  if (lane_ == nullptr)
    return false;
  batch_.deadline = steady_clock::now() + read_patience;
  batch_.reset();
  if (alone_ && search_->rounds() <= rounds_alone)
    lane_->submit_short(batch_);
  else
    lane_->submit(batch_);
  return true;
}

lookup_carrier::state lookup_by_reads::advance() {
  return asked_ ? asked_->advance() : go_on();
}

/// Goes from round to round for as long as READs have arrived.
lookup_carrier::state lookup_by_reads::go_on() {
  while (batch_.complete()) {
    lane_ = nullptr;
    if (take_units() && read_units())
      continue;
    if (search_->where() != remote_search::state::found)
      return ask_node();
    shards_.count(search_->reads(), true);
    answer_ = search_->answer();
    return state::answered;
  }
  return state::asking;
}

bool lookup_by_reads::take_units() {
  const bool arrived = std::all_of(batch_.pages.begin(), batch_.pages.end(), [](const auto& page) {
    return page.status == page_status::hit;
  });
  if (!arrived) {
    shards_.failed(owner_.self.inc, steady_clock::now());
    return false;
  }
  // No READ into the memory is under way any longer.
  static_assert(sizeof(directory::unit_words) == shard_unit_bytes);
  const auto* units =
      std::launder(reinterpret_cast<const directory::unit_words*>(memory_.bytes().data()));
  search_->take({units, batch_.pages.size()});
  if (search_->where() != remote_search::state::reading && search_->known() != known_)
    shards_.learn(owner_.self.inc, search_->known());
  return search_->where() == remote_search::state::reading;
}

lookup_carrier::state lookup_by_reads::ask_node() {
  shards_.count(search_ ? search_->reads() : 0, false);
  asked_.emplace(channels_, owner_);
  return asked_->start(request_);
}

bool lookup_by_reads::wait_briefly(time_point until) {
  return !asked_ && batch_.wait_until(until);
}

lookup_carrier::time_point lookup_by_reads::look_at() const {
  return asked_ ? asked_->look_at() : steady_clock::now() + look_again;
}

void lookup_by_reads::keep() {
  if (asked_)
    asked_->keep();
}

} // namespace peercache::client
