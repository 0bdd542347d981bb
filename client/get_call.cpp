#include "client/get_call.hpp"

#include "client/timed_copy.hpp"
#include "common/copy.hpp"
#include "common/guards.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace peercache::client {
namespace {

/// The location was out of date, not the page unreadable: worth a second look.
bool location_was_stale(page_status status) noexcept {
  return status == page_status::stale || status == page_status::owner_gone ||
         status == page_status::wrong_key;
}

/// Nothing in a program that users run: see common/guards.hpp.
void swap_locations_for_tests(std::vector<lookup_answer>& answers) {
  auto one_in = fault_setting(fault::swap_locations_one_in);
  if (one_in == 0 || answers.size() < 2)
    return;
  static std::atomic<std::uint32_t> look_ups{0};
  if (look_ups.fetch_add(1, std::memory_order_relaxed) % one_in == 0)
    std::swap(answers[0], answers[1]);
}

} // namespace

get_call::get_call(cache_client::impl& client, std::span<const get_page> pages,
                   std::span<page_result> results, deadline until, call_start start)
    : client_(client), pages_(pages), results_(results), until_(until),
      cluster_(client.session.board().topology()), own_(std::move(start.own)), left_(start.left) {}

void get_call::run() {
  begin();
  find_on_own_host();
  resolve_from_cache();
  look_up();
  read();
  if (missing_.empty())
    return;
  second_look_ = true;
  client_.totals.retries.fetch_add(missing_.size(), std::memory_order_relaxed);
  cluster_ = client_.session.board().topology();
  const auto again = client_.session.board().start_call();
  own_ = again.own;
  left_ = again.left;
  find_on_own_host();
  auto holders = ask_holders();
  look_up();
  if (holders)
    leave_to_holders();
  read(holders ? &*holders : nullptr);
}

void get_call::begin() {
  missing_.reserve(pages_.size());
  for (std::uint32_t i = 0; i < pages_.size(); ++i) {
    results_[i] = {};
    results_[i].length_bytes = length_of(pages_[i].parts);
    if (results_[i].length_bytes == 0)
      results_[i].status = page_status::bad_size;
    else
      missing_.push_back(i);
  }
}

void get_call::find_on_own_host() {
  std::vector<std::uint32_t> elsewhere;
  elsewhere.reserve(missing_.size());
  find_each(
      own_, missing_.size(),
      [this](std::size_t i) -> const page_key& { return pages_[missing_[i]].key; },
      [this](std::size_t i) { return results_[missing_[i]].length_bytes; },
      [&](std::size_t i, const std::optional<directory::page_location>& here) {
        const auto index = missing_[i];
        if (!here)
          return elsewhere.push_back(index);
        located_.push_back({index, *here});
        if (index < denied_.size())
          denied_[index] = {}; // Nobody else need be asked for it.
      });
  missing_.swap(elsewhere);
}

void get_call::resolve_from_cache() {
  std::uint64_t found = 0;
  std::erase_if(missing_, [&](std::uint32_t index) {
    const auto known = client_.locations.find(pages_[index].key);
    if (!known || known->length_bytes != results_[index].length_bytes ||
        cluster_->find(known->owner) == nullptr)
      return false;
    located_.push_back({index, *known});
    ++found;
    return true;
  });
  client_.totals.location_cache_hits.fetch_add(found, std::memory_order_relaxed);
}

void get_call::look_up() {
  if (missing_.empty())
    return;
  std::vector<page_key> keys;
  keys.reserve(missing_.size());
  for (auto index : missing_)
    keys.push_back(pages_[index].key);
  std::vector<lookup_answer> answers(keys.size());
  client_.look_up(keys, answers, until_);
  swap_locations_for_tests(answers);
  auto place = place_of(client_, own_);
  avoided_.resize(pages_.size());
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    auto index = missing_[i];
    if (answers[i].status == page_status::hit) {
      place.avoided = avoided_[index];
      place.length_bytes = results_[index].length_bytes;
      const auto& best = choose_location(answers[i], place);
      client_.remember(keys[i], best);
      located_.push_back({index, best});
    } else {
      results_[index].status = answers[i].status;
    }
  }
  missing_.clear();
}

void get_call::read(promote_call* holders) {
  auto cold = ask_for_cold();
  read_from_memory();
  if (cold)
    locate_promoted(*cold);
  if (holders != nullptr)
    locate_at_holders(*holders);
  if (!located_.empty())
    read_from_memory();
}

std::optional<promote_call> get_call::ask_holders() {
  cold_pages pages;
  denied_.resize(pages_.size());
  for (const auto index : missing_) {
    if (denied_[index].value == 0)
      continue;
    directory::page_location holder;
    holder.owner = avoided_[index];
    holder.length_bytes = results_[index].length_bytes;
    pages.add(index, pages_[index].key, holder);
  }
  if (pages.empty())
    return std::nullopt;
  return std::optional<promote_call>(std::in_place, client_.session, *cluster_, std::move(pages),
                                     until_);
}

void get_call::leave_to_holders() {
  std::erase_if(located_, [this](const open_page& page) {
    auto& denied = denied_[page.index];
    if (page.location.owner != avoided_[page.index])
      denied = {};
    if (denied.value == 0)
      return false;
    results_[page.index].status = page_status::stale;
    return true;
  });
}

void get_call::locate_at_holders(promote_call& asked) {
  from_disk_.resize(pages_.size());
  for (const auto& place : asked.take()) {
    const auto denied = denied_[place.index];
    if (denied.value == 0)
      continue; // The directory knew of another holder, and it was read there.
    auto& status = results_[place.index].status;
    const auto& key = pages_[place.index].key;
    if (place.location) {
      client_.remember(key, *place.location);
      located_.push_back({place.index, *place.location});
      from_disk_[place.index] = true;
    } else if (std::chrono::steady_clock::now() >= until_) {
      status = page_status::timed_out;
    } else if (status == page_status::stale) { // The directory believes in it still.
      client_.locations.erase(key);
      client_.session.board().stale.add({key, avoided_[place.index], denied});
    }
  }
}

std::optional<promote_call> get_call::ask_for_cold() {
  const auto on_disk = [](const open_page& page) {
    return page.location.where == directory::tier::disk;
  };
  cold_pages cold;
  for (const auto& page : located_)
    if (on_disk(page)) {
      if (page.location.length_bytes == results_[page.index].length_bytes)
        cold.add(page.index, pages_[page.index].key, page.location);
      else
        results_[page.index].status = page_status::bad_size;
    }
  std::erase_if(located_, on_disk);
  if (cold.empty())
    return std::nullopt;
  return std::optional<promote_call>(std::in_place, client_.session, *cluster_, std::move(cold),
                                     until_);
}

void get_call::locate_promoted(promote_call& asked) {
  const auto places = asked.take();
  const bool too_late = std::chrono::steady_clock::now() >= until_;
  from_disk_.resize(pages_.size());
  for (const auto& place : places) {
    const auto& key = pages_[place.index].key;
    if (place.location) {
      client_.remember(key, *place.location);
      located_.push_back({place.index, *place.location});
      from_disk_[place.index] = true;
      continue;
    }
    // The disk had it no more, or not in time; the directory may know better in a second look.
    client_.locations.erase(key);
    if (second_look_ || too_late)
      results_[place.index].status = too_late ? page_status::timed_out : page_status::stale;
    else
      missing_.push_back(place.index);
  }
}

void get_call::read_from_memory() {
  for (const auto& page : located_)
    if (!own_ || page.location.owner != own_->node.inc)
      add_to_batch(page);
  for (auto& read : batches_) {
    client_.load.begin(read->batch.peer.inc, read->bytes);
    read->over.emplace(client_.reads->lanes(), read->batch, rdma::current_numa_node()).start();
  }
  // Own pages are copied while the others' bytes are on their way.
  for (const auto& page : located_)
    if (own_ && page.location.owner == own_->node.inc)
      read_own_host(page);
  mirror_call mirrors{client_, own_, until_};
  for (auto& read : batches_) {
    read->over->finish();
    client_.load.end(read->batch.peer.inc, read->bytes);
    take_batch(*read, mirrors);
  }
  mirrors.run();
  located_.clear();
  batches_.clear();
}

void get_call::decide(std::uint32_t index, const directory::page_location& used, page_status status,
                      page_origin origin) {
  auto& result = results_[index];
  if (status != page_status::hit)
    client_.locations.erase(pages_[index].key, used);
  if (location_was_stale(status) && !second_look_) {
    missing_.push_back(index);
    avoided_.resize(pages_.size());
    avoided_[index] = used.owner;
    denied_.resize(pages_.size());
    if (status != page_status::owner_gone)
      denied_[index] = used.gen;
    return;
  }
  // In the second round the directory itself said so, just now; and the holder denied it, not a
  // view that may be older than the record.
  if (location_was_stale(status) && origin != page_origin::none && used.gen.readable())
    client_.session.board().stale.add({pages_[index].key, used.owner, used.gen});
  result.status = status;
  const bool promoted = index < from_disk_.size() && from_disk_[index];
  result.origin = status != page_status::hit ? page_origin::none
                  : promoted                 ? page_origin::disk
                                             : origin;
}

void get_call::read_own_host(const open_page& page) {
  if (std::chrono::steady_clock::now() >= until_ || client_.closing.given()) {
    results_[page.index].status = page_status::timed_out; // Its location is as good as before.
    return;
  }
  const bool verify = client_.verify(client_.options.verify_own_host);
  auto status = page.location.length_bytes == results_[page.index].length_bytes
                    ? copy_out(page, verify)
                    : page_status::bad_size;
  if (status == page_status::timed_out)
    results_[page.index].status = status; // As above.
  else
    decide(page.index, page.location, status, page_origin::own_host);
}

page_status get_call::copy_out(const open_page& page, bool verify) {
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
    copy_fence();
    if (verify)
      digest = whole.digest();
  }
  if (!slots.still_readable(where.slot, where.gen) || own_->epochs.is_old(wanted.key))
    return page_status::stale;
  if (digest != where.checksum && guard_on(guard::checksum))
    return page_status::corrupt;
  if (where.gen.readable()) // Of a filling, the owner has its own words there.
    slots.count_use(where.slot);
  return page_status::hit;
}

void get_call::add_to_batch(const open_page& page) {
  const auto& where = page.location;
  const auto* owner = cluster_->find(where.owner);
  if (owner == nullptr || where.owner == left_)
    return decide(page.index, where, page_status::owner_gone, page_origin::none);
  if (where.length_bytes != results_[page.index].length_bytes)
    return decide(page.index, where, page_status::bad_size, page_origin::none);
  auto& target = read_of(*owner);
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

get_call::peer_read& get_call::read_of(const actors::peer& owner) {
  const auto found = std::find_if(batches_.begin(), batches_.end(), [&](const auto& read) {
    return read->batch.peer.inc == owner.self.inc;
  });
  if (found != batches_.end())
    return **found;
  auto& fresh = *batches_.emplace_back(std::make_unique<peer_read>());
  fresh.batch.peer = {owner.self.id,        owner.self.inc,          owner.self.host,
                      owner.self.data_port, client_.options.cluster, owner.self.rails};
  fresh.batch.deadline = until_;
  return fresh;
}

void get_call::take_batch(const peer_read& read, mirror_call& mirrors) {
  for (std::size_t i = 0; i < read.indices.size(); ++i) {
    const auto& page = read.batch.pages[i];
    directory::page_location used;
    used.owner = read.batch.peer.inc;
    used.gen = page.gen;
    const bool by_rail = read.over->carrier(i) == rdma::read_lane::kind::rail;
    if (by_rail && page.status == page_status::hit)
      client_.session.board().uses.add(used.owner, page.slot, page.gen);
    decide(read.indices[i], used, page.status,
           by_rail ? page_origin::other_host_rdma : page_origin::other_host);
    if (page.status == page_status::hit)
      mirrors.consider(pages_[read.indices[i]], page.length_bytes, page.checksum);
  }
}

} // namespace peercache::client
