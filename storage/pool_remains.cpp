#include "storage/pool_remains.hpp"

#include "common/checksum.hpp"
#include "common/guards.hpp"
#include "common/limits.hpp"
#include "storage/take_over_step.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {
namespace {

/// No pool reaches this generation, so an entry with a generation as high as this is damaged.
constexpr std::uint64_t generation_max = std::uint64_t{1} << 62;

class surveyor {
public:
  explicit surveyor(slot_table slots) : slots_(slots) {}

  pool_remains run() && {
    for (at_ = 0; at_ < slots_.granules(); ++at_)
      look_at({static_cast<std::uint32_t>(at_)});
    end_run();
    return std::move(found_);
  }

private:
  void look_at(slot_id slot) {
    slots_.clear_pins(slot);
    const auto entry = slots_.contents(slot);
    if (entry.gen.readable()) {
      if (at_ >= page_end_ && can_be_page(slot, entry))
        return take_page(slot, entry);
      slots_.give_up(slot);
      ++found_.impossible;
      reached(take_over_step::entry_withdrawn);
    }
    const auto removed = slots_.granules_to_zero(slot);
    if (removed != 0 && at_ >= page_end_ && at_ >= filled_until_)
      return take(slot, removed, claimed_extent::use::to_be_zeroed);
    // Nothing is zeroed for this entry: it names no removed page, or its granules belong to another
    // extent.
    slots_.note_zeroed(slot);
    if (const auto granules = slots_.granules_being_filled(slot); granules != 0) {
      slots_.refuse_fill(slot);
      // No fill lies in two extents: when the first of them was zeroed, its entry would no longer
      // say that bytes in the second have to be.
      if (run_granules_ + granules > limits::granules_per_page_max)
        end_run();
      filled_until_ = std::max(filled_until_, at_ + granules);
    } else if (const auto filled = slots_.page_in(slot)) {
      // The owner died while it published or dropped this fill. No reader that knows the fill may
      // take it for complete.
      slots_.drop(slot);
      filled_until_ = std::max(filled_until_, at_ + limits::granules_of(filled->length_bytes));
    }
    if (at_ < page_end_ || at_ >= filled_until_)
      return end_run();
    if (run_granules_ == limits::granules_per_page_max)
      end_run();
    ++run_granules_;
  }

  bool can_be_page(slot_id slot, const slot_contents& entry) const {
    return entry.gen.value < generation_max && entry.length_bytes != 0 &&
           slots_.in_range(slot, entry.length_bytes) && entry.checksum != 0;
  }

  void take_page(slot_id slot, const slot_contents& entry) {
    take(slot, limits::granules_of(entry.length_bytes), claimed_extent::use::page);
    ++found_.pages;
    found_.newest = std::max(found_.newest, entry.gen);
  }

  void take(slot_id slot, std::uint32_t granules, claimed_extent::use as) {
    end_run();
    page_end_ = at_ + granules;
    found_.extents.push_back({slot, granules, as});
  }

  /// Adds the run of granules that somebody may still fill, which ends before `at_`, to the
  /// extents.
  void end_run() {
    if (run_granules_ != 0)
      found_.extents.push_back({{static_cast<std::uint32_t>(at_ - run_granules_)},
                                run_granules_,
                                claimed_extent::use::being_filled});
    run_granules_ = 0;
  }

  slot_table slots_;
  pool_remains found_;
  std::uint64_t at_ = 0;
  /// The granule at which the last extent that holds or held a page ends.
  std::uint64_t page_end_ = 0;
  std::uint64_t filled_until_ = 0; ///< The highest granule at which a fill seen so far ends.
  std::uint32_t run_granules_ = 0;
};

} // namespace

pool_remains survey(slot_table slots) {
  return surveyor(slots).run();
}

bool is_intact(const slot_table& slots, slot_id slot) {
  if (!guard_on(guard::adoption))
    return true;
  const auto page = slots.contents(slot);
  return checksum_of(slots.bytes(slot, page.length_bytes)) == page.checksum;
}

remains_check::remains_check(slot_table slots, const std::vector<claimed_extent>& extents)
    : slots_(slots) {
  std::vector<std::pair<generation, slot_id>> pages;
  for (const auto& extent : extents)
    if (extent.as == claimed_extent::use::page)
      pages.emplace_back(slots.contents(extent.slot).gen, extent.slot);
  std::sort(pages.begin(), pages.end());
  pages_.reserve(pages.size());
  for (const auto& [gen, slot] : pages)
    pages_.push_back(slot);
}

std::vector<remains_check::outcome> remains_check::next(std::uint64_t about_bytes) {
  std::vector<outcome> outcomes;
  for (std::uint64_t bytes = 0; at_ < pages_.size() && bytes < about_bytes; ++at_) {
    const auto slot = pages_[at_];
    bytes += slots_.contents(slot).length_bytes;
    outcomes.push_back({slot, is_intact(slots_, slot)});
    reached(take_over_step::page_compared);
  }
  return outcomes;
}

} // namespace peercache::storage
