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
  PEERCACHE_ASSERT(!sending()); // An answer that is being sent still pins its pages.
  text_.clear();
  pages_.clear();
  damaged_.clear();
  judged_later_.clear();
  text_sent_ = at_ = offset_ = 0;
}

void tcp_answer::begin(const request_header& header, const request_record* records) {
  restart();
  append_bytes(text_, answer_header{answer_magic, header.page_count, header.request_id});
  for (std::uint32_t i = 0; i < header.page_count; ++i)
    text_.push_back(static_cast<std::byte>(take(records[i])));
  text_.resize(answer_head_bytes(header.page_count));
  if (shared_.serves.service() == data_service::handoff)
    judged_later_.assign(records, records + header.page_count);
}

page_status tcp_answer::take(const request_record& record) {
  outgoing_page page;
  page.slot = record.slot;
  page.length_bytes = record.length_bytes;
  page.from = record.source;
  const auto status = shared_.serves.pool != nullptr ? pin(record, page) : look_at(record);
  if (status != page_status::hit)
    return status;
  if (page.from.contiguous())
    page.from = memory_rows::one_piece(page.from.address, page.length_bytes);
  ++shared_.payloads;
  const auto flip = shared_.options.faults.flip_byte_one_in;
  if (flip != 0 && shared_.payloads % flip == 0 && !is_of_device(page))
    damage(page);
  pages_.push_back(page);
  return status;
}

page_status tcp_answer::pin(const request_record& record, outgoing_page& page) {
  std::span<const std::byte> bytes;
  const auto status =
      shared_.serves.pool->pin(record.slot, record.gen, record.key, record.length_bytes, bytes);
  if (status != page_status::hit)
    return status;
  PEERCACHE_ASSERT(bytes.size() == record.length_bytes);
  page.from =
      memory_rows::one_piece(reinterpret_cast<std::uint64_t>(bytes.data()), record.length_bytes);
  page.pinned = true;
  pinned_bytes_ += record.length_bytes;
  shared_.pins.take(peer_, record.length_bytes);
  // Tests switch this guard off: then the slot may be reused while its bytes are sent.
  if (!guard_on(guard::pin))
    release(page);
  return status;
}

/// Looks at the memory of a page before the answer: whether the memory is served, and the page's
/// lease stands.
page_status tcp_answer::look_at(const request_record& record) const {
  const auto& spans = *shared_.serves.spans;
  if (!spans.read().covers(record.source))
    return page_status::refused;
  return spans.judge(record.slot, record.gen, record.key);
}

void tcp_answer::damage(outgoing_page& page) {
  auto& copy = damaged_.emplace_back();
  for (std::uint32_t row = 0; row < page.from.rows; ++row) {
    const auto* begin = page.from.begin_of(row);
    copy.insert(copy.end(), begin, begin + page.from.row_bytes);
  }
  copy[copy.size() / 2] ^= std::byte{0x40};
  page.from =
      memory_rows::one_piece(reinterpret_cast<std::uint64_t>(copy.data()), page.length_bytes);
  page.is_copy = true;
}

/// Makes the verdicts, which are sent behind the payloads: whether the lease of each page still
/// stands now that the socket has the last byte of the payloads.
void tcp_answer::make_verdicts() {
  text_.clear();
  text_sent_ = 0;
  for (const auto& record : judged_later_)
    // Tests switch this guard off: then nobody looks at the lease a second time.
    text_.push_back(static_cast<std::byte>(
        guard_on(guard::fence) ? shared_.serves.spans->judge(record.slot, record.gen, record.key)
                               : page_status::hit));
  text_.resize(whole_answer_lines(text_.size()));
  judged_later_.clear();
}

bool tcp_answer::is_of_device(const outgoing_page& page) const noexcept {
  return shared_.options.device != nullptr && shared_.options.device->holds(page.from);
}

/// Copies bytes of the page from `offset` on to the staging buffer and returns them; empty when
/// they cannot be copied.
std::span<const std::byte> tcp_answer::staged(const outgoing_page& page, std::size_t offset,
                                              std::size_t bytes_max) const noexcept {
  auto& staging = shared_.staging;
  staging.resize(tcp_server_state::staging_bytes);
  const auto bytes = std::min({bytes_max, staging.size(), page.length_bytes - offset});
  const auto row_bytes = page.from.row_bytes;
  for (std::size_t done = 0; done < bytes;) {
    const auto at = offset + done;
    const auto in_row = static_cast<std::uint32_t>(at % row_bytes);
    const auto left = static_cast<std::uint32_t>(bytes - done);
    auto rows = page.from;
    rows.address += at / row_bytes * rows.stride_bytes + in_row;
    rows.rows = in_row == 0 ? std::max(left / row_bytes, 1u) : 1;
    rows.row_bytes = std::min(row_bytes - in_row, left);
    if (!shared_.options.device->copy_out(staging.data() + done, rows))
      return {};
    done += std::size_t{rows.rows} * rows.row_bytes;
  }
  return std::span(staging).first(bytes);
}

std::size_t tcp_answer::next(std::span<iovec> out, std::size_t bytes_max,
                             const served_spans::reading& reading) const noexcept {
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
    const auto& page = pages_[i];
    if (shared_.serves.spans != nullptr && !page.is_copy && !reading.covers(page.from))
      return 0;
    if (is_of_device(page)) {
      if (count != 0)
        break; // One page at a time is staged, and sent by itself.
      const auto bytes = staged(page, offset_, bytes_max);
      add(bytes.data(), bytes.size());
      break;
    }
    for (auto at = i == at_ ? offset_ : 0;
         at < page.length_bytes && bytes_max > 0 && count < out.size();) {
      const auto in_row = at % page.from.row_bytes;
      const auto* row = page.from.begin_of(static_cast<std::uint32_t>(at / page.from.row_bytes));
      add(row + in_row, page.from.row_bytes - in_row);
      at += page.from.row_bytes - in_row;
    }
  }
  return count;
}

void tcp_answer::advance(std::size_t bytes) {
  const auto of_text = std::min(bytes, text_.size() - text_sent_);
  text_sent_ += of_text;
  bytes -= of_text;
  while (bytes > 0) {
    PEERCACHE_ASSERT(at_ < pages_.size());
    auto& page = pages_[at_];
    const auto here = std::min<std::size_t>(bytes, page.length_bytes - offset_);
    offset_ += here;
    bytes -= here;
    if (offset_ == page.length_bytes) {
      release(page);
      ++at_;
      offset_ = 0;
    }
  }
  if (!sending() && !judged_later_.empty())
    make_verdicts();
}

void tcp_answer::release(outgoing_page& page) noexcept {
  if (!std::exchange(page.pinned, false))
    return;
  shared_.serves.pool->unpin(page.slot);
  pinned_bytes_ -= page.length_bytes;
  shared_.pins.give_back(peer_, page.length_bytes);
}

} // namespace peercache::rdma
