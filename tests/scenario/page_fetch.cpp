#include "tests/scenario/page_fetch.hpp"

#include "common/guards.hpp"
#include "tests/scenario/cluster.hpp"
#include "tests/scenario/process.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace peercache::scenario {

using namespace std::chrono_literals;
using std::chrono::microseconds;

namespace {

page_status check(process& holder, const page_fetch& page) {
  return holder.slots().check(page.from.slot, page.from.gen, page.key, page.from.length_bytes);
}

std::span<std::byte> bytes_at(process& holder, const page_fetch& page) {
  return holder.slots().bytes(page.from.slot, page.from.length_bytes);
}

/// Whether the process `there`, on the host that was reached, is the holder that the page's record
/// names. With the guard `incarnation` off any process counts.
bool is_reached(const process* there, const page_fetch& page) {
  return there != nullptr && (there->inc() == page.from.holder || !guard_on(guard::incarnation));
}

/// Plays RDMA: reads the payload, then the slot's entry, from the process that runs on the holder's
/// host.
void read_remote(cluster& in, process& reader, const page_fetch_ptr& page) {
  // True until the read has ended, by the holder's answer or the time-out.
  auto open = std::make_shared<bool>(true);
  auto end = [page, open](page_status status) {
    if (std::exchange(*open, false))
      page->done(status);
  };
  in.later(reader, page->until - in.time().now(), [end](process&) { end(page_status::timed_out); });
  in.reach(reader, page->from.holder, [&in, &reader, page, open, end](process* holder) {
    if (!*open)
      return;
    if (!is_reached(holder, *page))
      return end(page_status::holder_gone);
    if (!holder->slots().in_range(page->from.slot, page->from.length_bytes))
      return end(page_status::stale);
    const auto now = bytes_at(*holder, *page);
    page->bytes.assign(now.begin(), now.end());
    in.reach(reader, page->from.holder, [page, end](process* then) {
      end(is_reached(then, *page) ? check(*then, *page) : page_status::holder_gone);
    });
  });
}

/// Sends over TCP: the holder pins the page, sends it in parts, unpins it.
page_status send_pinned(cluster& in, process& holder, const page_fetch_ptr& page) {
  const auto& from = page->from;
  const auto status = holder.slots().pin_if(from.slot, from.gen, page->key, from.length_bytes);
  if (status != page_status::hit)
    return status;
  const auto all = bytes_at(holder, *page);
  page->bytes.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
  // One reader in eight is slow and takes up to 400 ms, others up to 3 ms.
  const auto longest = in.time().below(8) == 0 ? 400'000 : 3'000;
  const auto takes = microseconds(in.time().below(static_cast<std::uint64_t>(longest)));
  in.later(holder, takes, [page](process& self) {
    const auto rest = bytes_at(self, *page);
    const auto sent = static_cast<std::ptrdiff_t>(page->bytes.size());
    page->bytes.insert(page->bytes.end(), rest.begin() + sent, rest.end());
    self.slots().unpin(page->from.slot);
  });
  return page_status::hit;
}

void read_pinned(cluster& in, process& reader, const page_fetch_ptr& page) {
  // The holder sends from a copy of the request, because it may be slower than the reader waits.
  auto sent = std::make_shared<page_fetch>(*page);
  in.ask(
      reader, page->from.holder, page->until - in.time().now(),
      [&in, &reader, page, sent](const page_status* said) {
        if (said == nullptr || *said != page_status::hit)
          return page->done(said != nullptr ? *said : page_status::timed_out);
        // The second half of the page arrives when the holder runs `send_pinned`'s later event; a
        // frozen holder never does.
        const auto left = page->until - in.time().now();
        in.later(reader, std::min<duration>(500ms, left), [page, sent](process&) {
          page->bytes = sent->bytes;
          const bool whole = page->bytes.size() == page->from.length_bytes;
          page->done(whole ? page_status::hit : page_status::timed_out);
        });
      },
      [&in, sent](process& holder) { return send_pinned(in, holder, sent); });
}

} // namespace

void copy_own(cluster& in, process& reader, const page_fetch_ptr& page) {
  if (const auto status = check(reader, *page); status != page_status::hit)
    return page->done(status);
  const auto now = bytes_at(reader, *page);
  page->bytes.assign(now.begin(), now.end());
  in.later(reader, microseconds(in.time().below(2000)), [page](process& self) {
    const auto again = bytes_at(self, *page);
    const auto half = static_cast<std::ptrdiff_t>(page->bytes.size() / 2);
    std::copy(again.begin() + half, again.end(), page->bytes.begin() + half);
    const bool good = self.slots().still_readable(page->from.slot, page->from.gen);
    page->done(good ? page_status::hit : page_status::stale);
  });
}

void fetch(cluster& in, process& reader, const page_fetch_ptr& page) {
  if (in.time().below(2) == 0)
    read_remote(in, reader, page);
  else
    read_pinned(in, reader, page);
}

} // namespace peercache::scenario
