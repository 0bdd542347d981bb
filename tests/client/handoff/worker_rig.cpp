#include "tests/client/handoff/worker_rig.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <thread>

namespace peercache::client::test {

using handoff::room_state;

bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until)
      return false;
    std::this_thread::yield();
  }
  return true;
}

namespace {

handoff::kv_buffer buffer_of(const std::vector<std::byte>& bytes, std::uint32_t item_bytes) {
  handoff::kv_buffer buffer;
  buffer.address = reinterpret_cast<std::uintptr_t>(bytes.data());
  buffer.length_bytes = bytes.size();
  buffer.item_bytes = item_bytes;
  return buffer;
}

void fill_item(std::vector<std::byte>& bytes, std::uint32_t item, std::uint32_t item_bytes,
               std::uint8_t value) {
  std::fill_n(bytes.begin() + std::ptrdiff_t{item} * item_bytes, item_bytes, std::byte{value});
}

bool has_item(const std::vector<std::byte>& bytes, std::uint32_t item, std::uint32_t item_bytes,
              std::uint8_t value) {
  const auto begin = bytes.begin() + std::ptrdiff_t{item} * item_bytes;
  return std::all_of(begin, begin + item_bytes,
                     [value](std::byte each) { return each == std::byte{value}; });
}

} // namespace

worker_memory::worker_memory(std::uint32_t page_bytes, std::string dtype)
    : page_bytes_(page_bytes), dtype_(std::move(dtype)), k_(std::size_t{pages} * page_bytes),
      v_(std::size_t{pages} * page_bytes), aux_(std::size_t{pages} * aux_bytes) {}

handoff::kv_layout worker_memory::layout() const {
  handoff::kv_layout layout;
  layout.dtype = dtype_;
  layout.page_tokens = 16;
  layout.kv_heads = 1;
  layout.buffers = {buffer_of(k_, page_bytes_), buffer_of(v_, page_bytes_)};
  layout.aux = {buffer_of(aux_, aux_bytes)};
  return layout;
}

void worker_memory::fill(std::uint32_t page, std::uint8_t value) {
  fill_item(k_, page, page_bytes_, value);
  fill_item(v_, page, page_bytes_, static_cast<std::uint8_t>(value ^ 0x80));
}

void worker_memory::fill_aux(std::uint32_t row, std::uint8_t value) {
  fill_item(aux_, row, aux_bytes, value);
}

bool worker_memory::has(std::uint32_t page, std::uint8_t value) const {
  return has_item(k_, page, page_bytes_, value) &&
         has_item(v_, page, page_bytes_, static_cast<std::uint8_t>(value ^ 0x80));
}

bool worker_memory::has_aux(std::uint32_t row, std::uint8_t value) const {
  return has_item(aux_, row, aux_bytes, value);
}

worker_options tcp_options() {
  worker_options options;
  options.rails.mode = rdma::plane_mode::tcp;
  options.node_port = 0;
  return options;
}

worker_pair::worker_pair(const worker_options& of_prefill, const worker_options& of_decode) {
  auto sender = prefill_worker::start(of_prefill, prefill_memory.layout());
  auto receiver = decode_worker::start(of_decode, decode_memory.layout());
  if (!sender || !receiver) {
    ADD_FAILURE() << (sender ? receiver.error() : sender.error()).message;
    std::abort();
  }
  prefill = std::move(*sender);
  decode = std::move(*receiver);
}

void worker_pair::meet(std::uint64_t room, std::vector<std::uint32_t> decode_pages,
                       std::uint32_t prefix_pages) {
  number = {room};
  auto opened = prefill->open(number, 1);
  ASSERT_TRUE(opened) << opened.error().message;
  sending = *opened;
  auto joined = decode->open(number);
  ASSERT_TRUE(joined) << joined.error().message;
  receiving = *joined;
  ASSERT_TRUE(decode->connect(number, {address()}));
  ASSERT_TRUE(eventually([&] { return receiving->poll() == room_state::waiting_for_input; }));
  handoff::allocated_pages pages;
  pages.prefix_pages = prefix_pages;
  pages.pages = std::move(decode_pages);
  pages.aux_row = 3;
  ASSERT_TRUE(decode->allocate(number, std::move(pages)));
  ASSERT_TRUE(eventually([&] { return sending->state.poll() == room_state::waiting_for_input; }));
  EXPECT_EQ(prefill->prefix_pages(sending->id), prefix_pages);
}

void worker_pair::part() {
  prefill->clear(sending->id);
  decode->clear(number);
}

} // namespace peercache::client::test
