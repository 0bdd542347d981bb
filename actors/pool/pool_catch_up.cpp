#include "actors/pool/pool_catch_up.hpp"

#include "common/assert.hpp"

#include <chrono>

namespace peercache::actors {
namespace {

/// Granules that one step of the search looks at, at most: a pool of 1 TiB in pages of 2 MiB takes
/// 32 steps.
constexpr std::uint32_t catch_up_granules = 8u << 20;
constexpr std::uint32_t catch_up_pages = 16'384;
/// Granules between two checks of the step's bounds and of the room on the way to the disk.
constexpr std::uint32_t catch_up_piece = 256;
/// While no caller waits for `write_out`, the search for unwritten pages fills half of the room for
/// pages on their way to the disk: one part of two. The rest is for pages that are set or evicted.
constexpr std::uint64_t parts_at_leisure = 2;

/// Counts pages that are in memory only and should be on disk. Mirrors are kept by their producers;
/// pages that the disk gave up for others are written again only when the node leaves.
std::uint64_t not_on_disk(const pool_state& state) {
  const bool hurried = !state.disk.write_outs.empty();
  const auto& marks = state.publishing->marks();
  const auto kept = marks.kept_count() + state.publishing->mirrors().size() +
                    (hurried ? 0 : marks.let_go_count());
  const auto pages = state.pool->stats().pages;
  return pages - std::min(pages, kept);
}

/// One step of the search round the pool for pages that are not on disk.
class catch_up_step {
public:
  catch_up_step(pool_state& state, bool hurried) : state_(state), hurried_(hurried) {}

  void run(disk_catch_up::time_point now) {
    auto at = state_.disk.catch_up.at();
    std::uint32_t granules = 0;
    do {
      const auto from = at;
      at = state_.pool->walk(at, catch_up_piece,
                             [this](const storage::resident_page& page) { look_at(page); });
      PEERCACHE_ASSERT(at == 0 || at > from); // A round that does not advance never ends.
      granules += catch_up_piece;
    } while (at != 0 && !refused_ && granules < catch_up_granules && seen_ < catch_up_pages);
    // When a page found no room on the way to the disk, the next step goes on at that page.
    state_.disk.catch_up.looked(now, refused_ ? refused_->value : at, given_);
  }

private:
  void look_at(const storage::resident_page& page) {
    ++seen_;
    auto& disk = state_.disk;
    const auto& marks = state_.publishing->marks();
    if (refused_ || marks.kept(page.slot) || state_.publishing->mirrors().contains(page.slot) ||
        (!hurried_ && marks.let_go(page.slot)))
      return;
    // A pinned page may be on its way to the disk already. When nothing is on its way, the pin is a
    // reader's and does not matter.
    if (!disk.idle() && disk.is_pinned(page.slot))
      return;
    if (disk.keep_at_leisure(page, hurried_ ? 1 : parts_at_leisure))
      ++given_;
    else
      refused_ = page.slot;
  }

  pool_state& state_;
  const bool hurried_;
  std::uint32_t seen_ = 0;
  std::uint64_t given_ = 0;
  std::optional<slot_id> refused_;
};

/// Answers the callers of `write_out` whose time has passed, or all callers when no further page
/// can be written (`over`).
void answer_write_outs(pool_state& state, disk_catch_up::time_point now, bool over) {
  const auto left = not_on_disk(state);
  over |= left == 0 || !state.disk.takes_pages() || state.disk.catch_up.failing(now);
  std::erase_if(state.disk.write_outs, [&](pool_disk::write_out& one) {
    if (!over && now < one.until)
      return false;
    PEERCACHE_ASSERT(state.disk.stored >= one.stored_before);
    one.promise.deliver(state.disk.stored - one.stored_before, left);
    return true;
  });
}

bool catches_up(const pool_disk& disk) {
  return disk.on() && (disk.write_through() || !disk.write_outs.empty());
}

} // namespace

bool has_to_catch_up(const pool_state& state, disk_catch_up::time_point now) {
  const auto& disk = state.disk;
  return !disk.write_outs.empty() || (catches_up(disk) && disk.takes_pages() &&
                                      !disk.catch_up.failing(now) && not_on_disk(state) != 0);
}

void catch_up(pool_pointer self) {
  auto& state = self->state;
  auto& disk = state.disk;
  const bool hurried = !disk.write_outs.empty();
  if (!catches_up(disk))
    return;
  const auto now = self->clock().now();
  const auto rounds = disk.catch_up.rounds();
  if (disk.takes_pages() && not_on_disk(state) != 0 &&
      disk.catch_up.due(now, disk.idle(), hurried)) {
    catch_up_step{state, hurried}.run(now);
    send_to_disk(self);
  }
  // A whole round of the search gave no page to the disk, and none is on its way: the remaining
  // pages cannot be written.
  const bool over =
      disk.catch_up.rounds() != rounds && disk.catch_up.last_round() == 0 && disk.idle();
  if (hurried)
    answer_write_outs(state, now, over);
}

caf::result<std::uint64_t, std::uint64_t> write_out(pool_pointer self, std::uint32_t within_ms) {
  auto& state = self->state;
  auto promise = self->make_response_promise<std::uint64_t, std::uint64_t>();
  if (!state.disk.on()) {
    promise.deliver(std::uint64_t{0}, std::uint64_t{0});
    return promise;
  }
  state.disk.write_outs.push_back(
      {promise, self->clock().now() + std::chrono::milliseconds(within_ms), state.disk.stored});
  stir(self);
  catch_up(self);
  return promise;
}

} // namespace peercache::actors
