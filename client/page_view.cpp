#include "client/page_view.hpp"

#include "client/cache_client.hpp"
#include "client/calls/client_impl.hpp"
#include "client/pool/call_start.hpp"
#include "client/pool/viewed_page.hpp"
#include "common/assert.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

namespace peercache::client {

namespace {

/// Returns a name for the hold of one view: under the client's own name, the client's gets would
/// end the hold.
storage::holder_tag tag_of_a_view(storage::holder_tag client) noexcept {
  static std::atomic<std::uint32_t> views{0};
  constexpr std::uint32_t spread = 0x9e3779b1; // 2^32 divided by the golden ratio
  return {client.value ^ (views.fetch_add(1, std::memory_order_relaxed) + 1) * spread};
}

} // namespace

result<page_view> cache_client::look_at(const page_key& key, std::chrono::milliseconds hold) {
  if (!is_open())
    return {errc::closed, "the client is closed, as each is in a forked child"};
  const auto start = impl_->session.board().start_call();
  const dated_pages now{start.epochs, std::span{&key, 1}};
  if (!now.known())
    return {errc::not_found, "the node repairs the epochs of its spaces"};
  const auto wanted = std::clamp(hold, std::chrono::milliseconds{0}, exists_hold::duration_max);
  auto found = viewed_page::find(start.own, now.pages().front(), wanted,
                                 tag_of_a_view(impl_->session.board().hold_tag),
                                 impl_->verify(impl_->options.verify_own_host));
  if (!found)
    return found.error();
  return page_view{*std::move(found)};
}

page_view::page_view(std::unique_ptr<viewed_page> page) noexcept : page_(std::move(page)) {}

page_view::page_view(page_view&&) noexcept = default;

page_view& page_view::operator=(page_view&& other) noexcept {
  if (this != &other) {
    end();
    page_ = std::move(other.page_);
  }
  return *this;
}

page_view::~page_view() {
  end();
}

void page_view::end() noexcept {
  if (!page_)
    return;
  if (page_->home.is_here())
    page_->release();
  else
    (void)page_.release(); // A forked child frees nothing: the mapping is the parent's.
  page_.reset();
}

std::span<const std::byte> page_view::bytes() const noexcept {
  PEERCACHE_ASSERT(page_ != nullptr);
  return page_->pool->slots.bytes(page_->at.slot, page_->at.length_bytes);
}

bool page_view::held() const noexcept {
  PEERCACHE_ASSERT(page_ != nullptr);
  return page_->held;
}

bool page_view::intact() const noexcept {
  PEERCACHE_ASSERT(page_ != nullptr);
  return page_->intact();
}

} // namespace peercache::client
