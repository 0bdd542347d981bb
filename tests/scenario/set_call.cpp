// The sets of a node's clients.

#include "client/calls/set_plan.hpp"
#include "common/checksum.hpp"
#include "link/protocol/pool_wire.hpp"
#include "tests/scenario/client_call.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace peercache::scenario {

using std::chrono::microseconds;

namespace {

/// One set of a page, which does what client/calls/set_plan.hpp decides.
class set_call : public client_call<set_call> {
public:
  set_call(cluster& in, process& by, const page_key& key, std::uint32_t length_bytes,
           link::commit_mode mode);
  void begin();

private:
  void fill_half(const client::set_plan::page& page);
  void fill_rest(const client::set_plan::page& page);
  void commit();
  std::span<std::byte> bytes_of(slot_id slot) const;

  const link::commit_mode mode_;
  const client::const_part part_;
  const client::set_page page_;
  client::page_result result_;
  client::set_plan plan_;
  std::uint64_t put_ = 0; ///< The number that the oracle gave to this put.
};

set_call::set_call(cluster& in, process& by, const page_key& key, std::uint32_t length_bytes,
                   link::commit_mode mode)
    : client_call(in, by), mode_(mode), part_{nullptr, length_bytes}, page_{key, {&part_, 1}},
      plan_({&page_, 1}, {&result_, 1}) {}

std::span<std::byte> set_call::bytes_of(slot_id slot) const {
  return by_.slots().bytes(slot, part_.bytes);
}

void set_call::begin() {
  if (by_.find_here(page_.key, part_.bytes)) {
    plan_.is_here(0);
    cluster_.on_set(by_.on(), page_.key, mode_ == link::commit_mode::mirror);
  }
  if (const auto lengths = plan_.ask(); !lengths.empty())
    plan_.take_slots(by_.serve_reserve(lengths), page_status::pending);
  for (const auto& page : plan_.to_fill())
    fill_half(page);
}

void set_call::fill_half(const client::set_plan::page& page) {
  put_ = cluster_.judge().put(page_.key);
  ++cluster_.counts().puts;
  std::vector<std::byte> bytes(part_.bytes);
  oracle::write(bytes, put_);
  if (auto* record = cluster_.record())
    record->put(cluster_.time().now(), to_string(by_.inc()), page_.key, bytes);
  std::copy_n(bytes.begin(), bytes.size() / 2, bytes_of(page.slot).begin());
  cluster_.later(by_, microseconds(cluster_.time().below(3000)),
                 [self = shared_from_this(), page](process&) {
                   self->fill_rest(page);
                   self->commit();
                 });
}

void set_call::fill_rest(const client::set_plan::page& page) {
  if (cluster_.time().now() >= until_)
    return plan_.too_late(page.index);
  oracle::write(bytes_of(page.slot), put_);
  plan_.filled(page.index, checksum_of(bytes_of(page.slot)));
}

void set_call::commit() {
  const auto filled = plan_.commit([this](const link::filled_slot& now) {
    cluster_.judge().offers(by_.inc(), put_);
    by_.record_hold(now.key, bytes_of(now.slot));
    const bool readable = by_.here().make_readable(now);
    if (readable)
      cluster_.on_set(by_.on(), now.key, mode_ == link::commit_mode::mirror);
    return readable;
  });
  // The node hears of the filled page up to 500 us later; readers of this host may get the page
  // before.
  cluster_.later(by_, microseconds(cluster_.time().below(500)),
                 [filled, unfilled = plan_.take_unfilled(), mode = mode_](process& node) {
                   node.serve_abandon(unfilled);
                   node.serve_commit(filled, mode);
                 });
}

} // namespace

void process::put(const page_key& key, bool always) {
  if (drained_ || leaving_)
    return;
  using link::commit_mode;
  // One put in eight is a mirror, as a client makes it of a page that it has read from another
  // host.
  const bool mirrors = cluster_.time().below(8) == 0;
  const auto mode = mirrors ? commit_mode::mirror : always ? commit_mode::store : commit_mode::skip;
  std::make_shared<set_call>(cluster_, *this, key, length_for(key), mode)->begin();
}

} // namespace peercache::scenario
