// A node's disk, which carries out one command after the other, each in `disk_takes`.

#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <cstring>

namespace peercache::scenario {

using namespace std::chrono_literals;
using directory::publisher;

namespace {

/// Time that each command of a disk takes; all take the same, so the disk keeps their order.
constexpr auto disk_takes = 5ms;

} // namespace

std::optional<directory::held_page> process::held(const page_key& key) const {
  if (auto page = pool_->find(key))
    return directory::held_page{key, page->gen, directory::tier::memory, page->length_bytes, 0};
  if (const auto* page = host_.disk.find(key))
    return directory::held_page{key, {}, directory::tier::disk, page->length_bytes, 0};
  return std::nullopt;
}

bool process::mirrors(const page_key& key) const {
  const auto page = pool_->find(key);
  return page && publisher_->mirrors().contains(page->slot);
}

std::uint64_t process::put_of(const storage::resident_page& page) const {
  std::uint64_t put = 0;
  std::memcpy(&put, here_.slots.bytes(page.slot, page.length_bytes).data(), sizeof put);
  return put;
}

/// Queues a page for the disk. The page is left out at random, one in eight, as if the disk had no
/// room; and no page is queued while the directory has not acknowledged an eviction from disk.
void process::keep_on_disk(const storage::resident_page& page) {
  if (!cluster_.settings().disk || publisher_->marks().kept(page.slot) || !tickets_open_.empty() ||
      cluster_.time().below(8) == 0)
    return;
  const disk::page copy{page.key, put_of(page), page.length_bytes, page.checksum};
  cluster_.later(*this, disk_takes, [copy](process& self) { self.write_to_disk(copy); });
}

void process::write_to_disk(const disk::page& page) {
  host_.disk.write(page);
  std::string stored;
  link::append_record(stored, disk::packed(page));
  publisher_->stored(stored);
  if (host_.disk.size() > cluster_.settings().disk_pages) {
    std::string keys;
    link::append_record(keys, host_.disk.give_up());
    tickets_open_.insert(++tickets_);
    publisher_->gone(tickets_, keys);
  }
  carry_out_orders();
}

void process::carry_out(publisher::acknowledge& order) {
  if (tickets_open_.erase(order.ticket) == 0)
    cluster_.judge().fault("the disk hears of room that it does not wait for");
}

void process::carry_out(publisher::walk_disk& order) {
  cluster_.later(*this, disk_takes, [order](process& self) {
    const auto [pages, last] = self.host_.disk.show(order.after, order.pages);
    self.publisher_->walked(order.id, pages, last);
    self.carry_out_orders();
    self.compare_soon();
  });
}

void process::remove_from_disk(const std::string& keys) {
  if (!cluster_.settings().disk)
    return;
  for (std::size_t i = 0; i < link::record_count<page_key>(keys); ++i)
    leaving_disk_.insert(link::record_at<page_key>(keys, i));
  cluster_.later(*this, disk_takes, [keys](process& self) {
    std::string had;
    for (std::size_t i = 0; i < link::record_count<page_key>(keys); ++i) {
      const auto key = link::record_at<page_key>(keys, i);
      self.leaving_disk_.extract(key);
      const bool erased = self.host_.disk.erase(key);
      had += static_cast<char>(erased ? page_status::hit : page_status::not_found);
    }
    self.publisher_->removed_on_disk(keys, had);
    self.carry_out_orders();
  });
}

/// Loads the page from disk into the pool. Returns the answer of a look-up, with the page's
/// location in memory or none.
std::string process::serve_promote(const page_key& key) {
  const auto* page = leaving_disk_.contains(key) ? nullptr : host_.disk.find(key);
  if (!pool_->find(key) && page != nullptr) {
    std::vector<storage::evicted> victims;
    const auto slot = pool_->reserve(page->length_bytes, victims);
    publisher_->left(victims);
    if (slot) {
      oracle::write(here_.slots.bytes(*slot, page->length_bytes), page->put);
      cluster_.judge().offers(inc_, page->put);
      const storage::fill filled{*slot, key, page->length_bytes, page->checksum};
      here_.slots.fill(filled.slot, filled.key, filled.length_bytes, filled.checksum);
      publisher_->restore({&filled, 1}, cluster_.time().now());
      record_hold(key, here_.slots.bytes(*slot, page->length_bytes));
    }
    carry_out_orders();
  }
  std::vector<directory::page_location> found;
  if (auto resident = pool_->find(key))
    found.push_back(publisher_->location_of(*resident));
  std::string answer;
  directory::append_answer(answer, found);
  return answer;
}

} // namespace peercache::scenario
