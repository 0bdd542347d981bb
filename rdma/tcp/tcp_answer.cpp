#include "rdma/tcp/tcp_answer.hpp"

#include "common/assert.hpp"
#include "common/guards.hpp"

#include <algorithm>
#include <utility>

namespace peercache::rdma {

tcp_answer::~tcp_answer() {
  for (auto& page : pages_)
    release(page);
}

void tcp_answer::restart() noexcept {
  PEERCACHE_ASSERT(!sending()); // The answer before still pins its pages.
  text_.clear();
  pages_.clear();
  damaged_.clear();
  text_sent_ = at_ = offset_ = 0;
}

void tcp_answer::begin(const request_header& header, const request_record* records) {
  restart();
  append_bytes(text_, answer_header{answer_magic, header.page_count, header.request_id});
  for (std::uint32_t i = 0; i < header.page_count; ++i)
    text_.push_back(static_cast<std::byte>(pin(records[i])));
}

page_status tcp_answer::pin(const request_record& record) {
  outgoing_page page{record.slot};
  const auto status =
      shared_.source.pin(record.slot, record.gen, record.key, record.length_bytes, page.bytes);
  if (status != page_status::hit)
    return status;
  PEERCACHE_ASSERT(page.bytes.size() == record.length_bytes);
  page.pinned = true;
  shared_.pinned_bytes += record.length_bytes;
  ++shared_.payloads;
  // Tests only: without this guard the slot may be reused while its bytes are sent.
  if (!guard_on(guard::pin))
    release(page);
  const auto flip = shared_.options.faults.flip_byte_one_in;
  if (flip != 0 && shared_.payloads % flip == 0)
    page.bytes = damaged(page.bytes);
  pages_.push_back(page);
  return status;
}

std::span<const std::byte> tcp_answer::damaged(std::span<const std::byte> bytes) {
  auto& copy = damaged_.emplace_back(bytes.begin(), bytes.end());
  copy[copy.size() / 2] ^= std::byte{0x40};
  return copy;
}

std::size_t tcp_answer::next(std::span<iovec> out, std::size_t bytes_max) const noexcept {
  PEERCACHE_ASSERT(sending());
  std::size_t count = 0;
  const auto add = [&](const std::byte* data, std::size_t bytes) {
    const auto taken = std::min(bytes, bytes_max);
    if (taken != 0)
      out[count++] = {const_cast<std::byte*>(data), taken};
    bytes_max -= taken;
  };
  add(text_.data() + text_sent_, text_.size() - text_sent_);
  for (auto i = at_; i < pages_.size() && bytes_max > 0 && count < out.size(); ++i) {
    const auto offset = i == at_ ? offset_ : 0;
    add(pages_[i].bytes.data() + offset, pages_[i].bytes.size() - offset);
  }
  return count;
}

void tcp_answer::advance(std::size_t bytes) noexcept {
  const auto of_text = std::min(bytes, text_.size() - text_sent_);
  text_sent_ += of_text;
  bytes -= of_text;
  while (bytes > 0) {
    PEERCACHE_ASSERT(at_ < pages_.size());
    auto& page = pages_[at_];
    const auto here = std::min(bytes, page.bytes.size() - offset_);
    offset_ += here;
    bytes -= here;
    if (offset_ == page.bytes.size()) {
      release(page);
      ++at_;
      offset_ = 0;
    }
  }
}

void tcp_answer::release(outgoing_page& page) noexcept {
  if (!std::exchange(page.pinned, false))
    return;
  shared_.source.unpin(page.slot);
  PEERCACHE_ASSERT(shared_.pinned_bytes >= page.bytes.size());
  shared_.pinned_bytes -= page.bytes.size();
}

} // namespace peercache::rdma
