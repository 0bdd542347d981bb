#pragma once

#include "common/checksum.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/page_source.hpp"
#include "rdma/tcp/tcp_page_server.hpp"
#include "rdma/tcp/tcp_transport.hpp"
#include "tests/fakes/memory_data_plane.hpp"
#include "tests/rdma/lent_memory.hpp"
#include "tests/support/certificates.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace peercache::rdma {

/// A pool of the simplest kind: slot n holds the n-th page that was put. Counts pins.
class test_pool final : public page_source {
public:
  struct slot {
    page_key key;
    generation gen;
    std::vector<std::byte> bytes;
    int pins = 0;
  };

  std::uint32_t put(std::size_t length_bytes) {
    slot made;
    made.key.bytes[0] = static_cast<std::uint8_t>(slots.size());
    made.key.bytes[1] = static_cast<std::uint8_t>(slots.size() >> 8);
    made.key.bytes[31] = 9;
    made.gen = {2 * (slots.size() + 1)};
    std::minstd_rand random(static_cast<unsigned>(slots.size() + 1));
    made.bytes.resize(length_bytes);
    for (auto& byte : made.bytes)
      byte = static_cast<std::byte>(random());
    slots.push_back(std::move(made));
    return static_cast<std::uint32_t>(slots.size() - 1);
  }

  page_status pin(slot_id id, generation gen, const page_key& key, std::uint32_t length_bytes,
                  std::span<const std::byte>& bytes) override {
    if (id.value >= slots.size() || slots[id.value].gen != gen)
      return page_status::stale;
    auto& found = slots[id.value];
    if (found.key != key)
      return page_status::wrong_key;
    if (found.bytes.size() != length_bytes)
      return page_status::bad_size;
    ++found.pins;
    bytes = found.bytes;
    return page_status::hit;
  }

  void unpin(slot_id id) override {
    ASSERT_GT(slots.at(id.value).pins, 0);
    --slots[id.value].pins;
  }

  /// Puts other bytes into all slots that nobody has pinned, as an eviction does.
  void reuse_unpinned() {
    for (auto& each : slots)
      if (each.pins == 0)
        each.bytes.assign(each.bytes.size(), std::byte{0xEE});
  }

  int pins() const {
    int sum = 0;
    for (const auto& each : slots)
      sum += each.pins;
    return sum;
  }

  std::vector<slot> slots;
};

/// A batch with its memory: pages back to back in one buffer, a guard byte before and behind each.
struct test_batch {
  static constexpr std::byte untouched{0xA5};

  test_batch() = default;
  /// Makes a batch of `count` new pages of `pool`, of one part each.
  test_batch(test_pool& pool, std::uint32_t count, std::size_t length_bytes) {
    for (std::uint32_t i = 0; i < count; ++i)
      add(pool, pool.put(length_bytes));
    lay_out();
  }

  read_batch batch;
  std::vector<std::byte> memory;
  std::vector<std::size_t> page_at;
  /// The test_pool's slot of each page, by index into the batch.
  std::vector<std::uint32_t> from_slots;

  void add(const test_pool& pool, std::uint32_t slot, std::uint32_t parts = 1) {
    const auto& from = pool.slots.at(slot);
    page_read page;
    page.key = from.key;
    page.slot = {slot};
    page.gen = from.gen;
    page.length_bytes = static_cast<std::uint32_t>(from.bytes.size());
    page.checksum = checksum_of(from.bytes);
    page.part_count = parts;
    batch.pages.push_back(page);
    from_slots.push_back(slot);
  }

  /// Gives the pages of the batch their memory; call it after the last `add`.
  void lay_out() {
    std::size_t total = 1;
    for (auto& page : batch.pages)
      total += page.length_bytes + 1;
    memory.assign(total, untouched);
    batch.parts.clear();
    page_at.clear();
    std::size_t at = 1;
    for (auto& page : batch.pages) {
      page_at.push_back(at);
      page.first_part = static_cast<std::uint32_t>(batch.parts.size());
      auto left = page.length_bytes;
      for (std::uint32_t i = 0; i < page.part_count; ++i) {
        const auto bytes = i + 1 == page.part_count ? left : left / (page.part_count - i) / 2;
        batch.parts.push_back({memory.data() + at + (page.length_bytes - left), bytes});
        left -= bytes;
      }
      at += page.length_bytes + 1;
    }
  }

  std::span<const std::byte> bytes_of(std::size_t page) const {
    return std::span(memory).subspan(page_at[page], batch.pages[page].length_bytes);
  }

  bool guards_untouched() const {
    if (memory[0] != untouched)
      return false;
    for (std::size_t i = 0; i < page_at.size(); ++i)
      if (memory[page_at[i] + batch.pages[i].length_bytes] != untouched)
        return false;
    return true;
  }

  bool all(page_status status) const {
    for (const auto& page : batch.pages)
      if (page.status != status)
        return false;
    return true;
  }

  bool holds(const test_pool& pool, std::size_t page) const {
    const auto& want = pool.slots[from_slots[page]].bytes;
    const auto got = bytes_of(page);
    // Bytes are compared by memcmp: tests are not optimized, and a loop over megabytes takes
    // seconds.
    return got.size() == want.size() && std::memcmp(got.data(), want.data(), got.size()) == 0;
  }
};

enum class fault : std::uint8_t { none, silent, breaks, corrupts };

/// A reader, at most one server at one address, and the time of both, which moves with each step.
class plane_rig {
public:
  /// @param what how the pages of a pool are served: in their slots, or as memory under leases
  explicit plane_rig(data_service what)
      : service(what),
        lent(what == data_service::handoff ? std::make_unique<lent_memory>() : nullptr) {}
  virtual ~plane_rig() = default;
  virtual data_plane& plane() = 0;
  /// Serves `pool` as `inc`; an earlier server is gone.
  virtual void serve(test_pool& pool, const incarnation& inc, fault what = fault::none) = 0;
  virtual void stop_serving() = 0;
  /// Copies the batch's pages to where peers read them, if that is not the pool itself.
  virtual void place(test_batch& what) {
    if (lent != nullptr && served != nullptr)
      lent->place(*served, what);
    else if (lent != nullptr)
      for (auto& page : what.batch.pages)
        page.source = memory_rows::one_piece(1, page.length_bytes); // Nothing is served, so any
                                                                    // address will do.
  }
  virtual peer_endpoint peer(const incarnation& inc) const = 0;
  virtual void step() = 0;

  void pass(clock::duration time) { now += time; }

  void submit(test_batch& what, const incarnation& inc,
              clock::duration within = std::chrono::seconds(5)) {
    place(what);
    what.batch.peer = peer(inc);
    what.batch.deadline = now + within;
    plane().submit(what.batch);
  }

  /// Steps until the batch is complete. Fails the test when the batch is not complete 50 ms after
  /// its deadline.
  void finish(const test_batch& what) {
    const auto limit = what.batch.deadline + std::chrono::milliseconds(50);
    while (!what.batch.complete()) {
      ASSERT_LT(now, limit) << "not complete by its deadline";
      step();
    }
  }

  void read(test_batch& what, const incarnation& inc) {
    submit(what, inc);
    finish(what);
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i)
      step();
  }

  clock::time_point now = clock::now();
  const data_service service;
  const std::unique_ptr<lent_memory> lent; ///< Null: pages are served in their slots.

protected:
  const test_pool* served = nullptr; ///< The pool of the last `serve`.
};

/// A CA of the cluster of all rigs, its node and its client, made once.
struct rig_certificates {
  const certificates ca{"test"};
  const std::shared_ptr<net::tls_context> node = context_of(ca.node());
  const std::shared_ptr<net::tls_context> client = context_of(ca.client());

  static const rig_certificates& get() {
    static const rig_certificates made;
    return made;
  }
  /// Makes the node's handshakes, which the caller has to run.
  static std::unique_ptr<net::tls_handshakes> handshakes() {
    auto made = net::tls_handshakes::create(get().node);
    EXPECT_TRUE(made);
    return std::move(*made);
  }
};

std::unique_ptr<plane_rig> make_memory_rig(data_service what);
std::unique_ptr<plane_rig> make_tcp_rig(data_service what);

/// A server and a reader over loopback, which one thread polls in turn.
class tcp_rig final : public plane_rig {
public:
  /// Makes the rig, under TLS if the options have TLS; the server is then a node of
  /// `rig_certificates`.
  explicit tcp_rig(const tcp_data_plane_options& opts = {}, data_service what = data_service::pool);
  data_plane& plane() override { return *reader; }
  void serve(test_pool& pool, const incarnation& inc, fault what = fault::none) override;
  void serve(test_pool& pool, tcp_page_server_options opts);
  void stop_serving() override { server.reset(); }
  peer_endpoint peer(const incarnation& inc) const override {
    return {{1}, inc, "127.0.0.1", port, "test", 0, service, name};
  }
  void step() override;

  std::string name; ///< Name under which the server is counted.
  /// The server's TLS handshakes, if the reader has TLS; null: connections are plain.
  std::unique_ptr<net::tls_handshakes> handshakes;
  std::unique_ptr<channel_data_plane> reader;
  std::unique_ptr<tcp_page_server> server;
  std::uint16_t port = 0;
  unsigned idle_steps = 0;
};

} // namespace peercache::rdma
