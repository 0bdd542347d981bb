#include "client/calls/get_call.hpp"

#include "client/calls/timed_copy.hpp"
#include "common/assert.hpp"
#include "common/copy.hpp"
#include "common/guards.hpp"
#include "common/interruption.hpp"
#include "rdma/data_plane.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace peercache::client {
namespace {

/// Bytes of this host's pool that are copied before owners' answers are looked for again.
constexpr std::uint64_t copied_at_once = 256u << 10;

/// Swaps two answers that are final when a test has set this fault; does nothing for users
/// (common/guards.hpp).
void swap_locations(lookup_answer& one, lookup_answer& other) {
  auto one_in = fault_setting(fault::swap_locations_one_in);
  if (one_in == 0 || one.status == page_status::pending || other.status == page_status::pending)
    return;
  static std::atomic<std::uint32_t> look_ups{0};
  if (look_ups.fetch_add(1, std::memory_order_relaxed) % one_in == 0)
    std::swap(one, other);
}

} // namespace

get_call::get_call(client_impl& client, std::span<const get_page> pages,
                   std::span<page_result> results, deadline until, call_start start)
    : client_(client), pages_(pages), until_(until),
      plan_(pages, results, client.locations, client.session.board().stale),
      start_(std::move(start)), begun_(std::chrono::steady_clock::now()),
      may_hold_(client.session.board().holding.may_hold(begun_)) {}

get_call::~get_call() {
  for (auto& read : batches_)
    if (read->begun) {
      read->over->cancel();
      end_read(*read);
    }
}

void get_call::run() {
  for (bool open = true; open; open = plan_.look_again()) {
    follow();
    find_on_own_host();
    client_.totals.location_cache_hits.fetch_add(plan_.take_remembered(),
                                                 std::memory_order_relaxed);
    ask_for_cold();
    std::optional<promote_call> holders;
    if (auto pages = plan_.ask_holders(); !pages.empty())
      holders.emplace(client_.session.members(), client_.session.closing(), *cluster_,
                      std::move(pages), until_);
    look_up();
    ask_for_cold();
    read(holders);
    client_.totals.retries.fetch_add(plan_.missing(), std::memory_order_relaxed);
    if (plan_.missing() > 0)
      start_ = client_.session.board().start_call();
  }
}

bool get_call::is_late() const noexcept {
  return std::chrono::steady_clock::now() >= until_;
}

void get_call::follow() {
  cluster_ = client_.session.board().topology();
  own_ = start_.own;
  readers_cluster known;
  if (own_)
    known.own = own_->node.inc;
  known.left = start_.left;
  known.is_member = [cluster = cluster_.get()](const directory::page_location& at) {
    return cluster->find(at.node, at.holder) != nullptr;
  };
  plan_.follow(std::move(known));
}

void get_call::find_on_own_host() {
  if (!own_)
    return;
  const auto missing = plan_.take_missing();
  find_each(
      own_, missing.size(),
      [&](std::size_t i) -> const page_key& { return pages_[missing[i]].key; },
      [&](std::size_t i) { return plan_.length_of(missing[i]); },
      [&](std::size_t i, const std::optional<directory::page_location>& here) {
        plan_.looked_at_own_host(missing[i], here);
      });
}

void get_call::look_up() {
  const auto keys = plan_.ask_directory();
  if (keys.empty())
    return;
  answers_.resize(keys.size());
  waves_ = {};
  wait_.add(client_.look_up(keys, answers_, until_, [this](std::span<const std::uint32_t> told) {
    return read_meanwhile(told);
  }));
  if (answers_.size() > 1)
    swap_locations(answers_[0], answers_[1]);
  auto reader = place_of(client_, own_);
  for (std::size_t nth = 0; nth < answers_.size(); ++nth)
    plan_.looked_up(nth, answers_[nth], reader);
}

void get_call::take_answers(std::span<const std::uint32_t> told) {
  if (told.size() > 1)
    swap_locations(answers_[told[0]], answers_[told[1]]);
  auto reader = place_of(client_, own_);
  for (const auto nth : told)
    if (answers_[nth].status != page_status::pending)
      plan_.looked_up(nth, answers_[nth], reader);
}

deadline get_call::read_meanwhile(std::span<const std::uint32_t> told) {
  if (!told.empty())
    take_answers(told);
  const auto now = std::chrono::steady_clock::now();
  const auto found = plan_.located_bytes();
  if (found > 0 && waves_.begins(found, now)) {
    ask_for_cold();
    take_round();
    begin_reads();
  }
  return copy_some() ? now : waves_.next();
}

void get_call::ask_for_cold() {
  if (auto pages = plan_.take_cold(); !pages.empty())
    cold_.emplace_back(client_.session.members(), client_.session.closing(), *cluster_,
                       std::move(pages), until_);
}

void get_call::read(std::optional<promote_call>& holders) {
  mirror_call mirrors{client_, own_, until_};
  read_from_memory(mirrors);
  for (auto& asked : std::exchange(cold_, {}))
    read_when_told(asked, &read_plan::promoted, mirrors);
  if (holders)
    read_when_told(*holders, &read_plan::told_by_holder, mirrors);
  mirrors.run();
}

void get_call::read_when_told(promote_call& asked,
                              void (read_plan::*told)(const promote_plan::place&, bool late),
                              mirror_call& mirrors) {
  for (auto places = take_next(asked); !places.empty(); places = take_next(asked)) {
    const bool late = is_late();
    for (const auto& place : places)
      (plan_.*told)(place, late);
    read_from_memory(mirrors);
  }
}

std::vector<promote_plan::place> get_call::take_next(promote_call& from) {
  const auto begun = std::chrono::steady_clock::now();
  auto places = from.take_next();
  wait_.add(link::call_wait::disk, "", std::chrono::steady_clock::now() - begun);
  return places;
}

void get_call::read_from_memory(mirror_call& mirrors) {
  take_round();
  if (own_pages_.empty() && batches_.size() == 1 && !batches_.front()->begun) {
    const auto begun = std::chrono::steady_clock::now();
    begin(*batches_.front(), &rdma::striped_read::start_alone);
    return finish_reads(mirrors, begun);
  }
  begin_reads();
  // Pages of this host's pool are copied while the bytes of other pages are on their way.
  while (copy_some()) {
  }
  finish_reads(mirrors, std::chrono::steady_clock::now());
}

void get_call::take_round() {
  for (const auto& page : plan_.take_round())
    if (plan_.is_own(page))
      own_pages_.push_back(page);
    else
      add_to_batch(page);
}

void get_call::begin(peer_read& read, void (rdma::striped_read::*start)()) {
  client_.load.begin(read.batch.peer.inc, read.bytes);
  read.over.emplace(client_.reads->lanes(), read.batch, rdma::current_numa_node());
  read.begun = true;
  (*read.over.*start)();
}

void get_call::begin_reads() {
  for (auto& read : batches_)
    if (!read->begun)
      begin(*read, &rdma::striped_read::start);
}

bool get_call::copy_some() {
  for (std::uint64_t copied = 0; own_done_ < own_pages_.size(); ++own_done_) {
    if (copied >= copied_at_once)
      return true;
    const auto& page = own_pages_[own_done_];
    copied += plan_.length_of(page.index);
    read_own_host(page);
  }
  own_pages_.clear();
  own_done_ = 0;
  return false;
}

void get_call::finish_reads(mirror_call& mirrors,
                            std::chrono::steady_clock::time_point waits_since) {
  for (auto& read : batches_) {
    end_read(*read);
    wait_.add(link::call_wait::peer, read->batch.peer.name,
              std::chrono::steady_clock::now() - waits_since);
    take_batch(*read, mirrors);
    waits_since = std::chrono::steady_clock::now();
  }
  batches_.clear();
}

void get_call::end_read(peer_read& read) {
  read.over->finish();
  if (const auto bytes = std::exchange(read.bytes, 0); bytes > 0)
    client_.load.end(read.batch.peer.inc, bytes);
}

void get_call::read_own_host(const read_plan::page& page) {
  interruption::look();
  if (plan_.may_copy(page, is_late() || client_.closing.given()))
    plan_.copied(page, copy_out(page, client_.verify(client_.options.verify_own_host)));
}

page_status get_call::copy_out(const read_plan::page& page, bool verify) {
  const auto& where = page.location;
  const auto& wanted = pages_[page.index];
  auto& slots = own_->slots;
  auto status = slots.check(where.slot, where.gen, wanted.key, where.length_bytes);
  if (status != page_status::hit)
    return status;
  auto bytes = slots.bytes(where.slot, where.length_bytes);
  std::uint64_t digest = where.checksum;
  if (wanted.parts.size() == 1 && bytes.size() <= timed_copy::look_bytes) {
    std::span to{wanted.parts[0].data, wanted.parts[0].bytes};
    if (verify)
      digest = copy_page_and_checksum(to, bytes);
    else
      copy_page(to, bytes);
  } else {
    timed_copy whole{until_, verify};
    std::size_t offset = 0;
    for (const auto& part : wanted.parts) {
      if (!whole.copy({part.data, part.bytes}, bytes.subspan(offset, part.bytes)))
        return page_status::timed_out;
      offset += part.bytes;
    }
    PEERCACHE_ASSERT(offset == bytes.size());
    copy_fence();
    if (verify)
      digest = whole.digest();
  }
  if (!slots.still_readable(where.slot, where.gen) || own_->epochs.is_old(wanted.key))
    return page_status::stale;
  if (digest != where.checksum && guard_on(guard::checksum))
    return page_status::corrupt;
  slots.count_use(where.slot);
  if (may_hold_)
    own_->end_hold(where.slot, where.length_bytes, client_.session.board().hold_tag, begun_);
  return page_status::hit;
}

void get_call::add_to_batch(const read_plan::page& page) {
  const auto& where = page.location;
  auto& target = read_of(where);
  auto& batch = target.batch;
  const auto& parts = pages_[page.index].parts;
  const bool by_rail = batch.peer.rails != 0 && client_.reads->has_rails();
  rdma::page_read read;
  read.key = pages_[page.index].key;
  read.slot = where.slot;
  read.gen = where.gen;
  read.checksum = where.checksum;
  read.length_bytes = where.length_bytes;
  read.first_part = static_cast<std::uint32_t>(batch.parts.size());
  read.part_count = static_cast<std::uint32_t>(parts.size());
  read.verify = client_.verify(by_rail ? client_.options.verify_rdma : client_.options.verify_tcp);
  batch.pages.push_back(read);
  batch.parts.insert(batch.parts.end(), parts.begin(), parts.end());
  target.indices.push_back(page.index);
  target.bytes += where.length_bytes;
}

get_call::peer_read& get_call::read_of(const directory::page_location& at) {
  const auto found = std::find_if(batches_.begin(), batches_.end(), [&](const auto& read) {
    return !read->begun && read->batch.peer.inc == at.holder;
  });
  if (found != batches_.end())
    return **found;
  const auto* peer = cluster_->find(at.node, at.holder);
  PEERCACHE_ASSERT(peer != nullptr); // The plan reads from members only.
  auto& fresh = *batches_.emplace_back(std::make_unique<peer_read>());
  fresh.batch.peer = {
      peer->self.id,           peer->self.inc,   peer->self.host,          peer->self.data_port,
      client_.options.cluster, peer->self.rails, rdma::data_service::pool, peer->self.name};
  fresh.batch.deadline = until_;
  return fresh;
}

void get_call::take_batch(const peer_read& read, mirror_call& mirrors) {
  PEERCACHE_ASSERT(read.indices.size() == read.batch.pages.size());
  for (std::size_t i = 0; i < read.indices.size(); ++i) {
    const auto& page = read.batch.pages[i];
    directory::page_location used;
    used.holder = read.batch.peer.inc;
    used.gen = page.gen;
    const bool by_rail = read.over->carrier(i) == rdma::read_lane::kind::rail;
    if (by_rail && page.status == page_status::hit)
      client_.session.board().uses.add(used.holder, page.slot, page.gen);
    plan_.was_read(read.indices[i], used, page.status,
                   by_rail ? page_origin::other_host_rdma : page_origin::other_host);
    if (may_hold_ && page.status == page_status::hit)
      client_.session.board().releases.add(used.holder, page.slot, page.gen);
    if (page.status == page_status::hit)
      mirrors.consider(pages_[read.indices[i]], page.length_bytes, page.checksum);
  }
}

} // namespace peercache::client
