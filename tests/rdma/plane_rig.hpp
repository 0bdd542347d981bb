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
#include <span>
#include <vector>

namespace peercache::rdma {

/// A simple page_source: slot n holds the n-th page that was put. Counts pins.
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
    made.bytes.resize(length_bytes);
    fill(made.bytes, slots.size() + 1);
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

  /// Overwrites all slots that nobody has pinned, as if their pages were evicted.
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

private:
  /// No two words of a page are equal, nor those at one place of two pages. A word at a time, and
  /// by pointers, because the tests' code is not optimized and they put gigabytes.
  static void fill(std::span<std::byte> bytes, std::uint64_t seed) {
    std::byte* at = bytes.data();
    std::byte* const end = at + bytes.size();
    while (at != end) {
      seed = seed * 6364136223846793005U + 1442695040888963407U;
      if (end - at < 8) {
        std::memcpy(at, &seed, static_cast<std::size_t>(end - at));
        return;
      }
      std::memcpy(at, &seed, 8);
      at += 8;
    }
  }
};

/// A read_batch with its memory: all pages in one buffer, with a guard byte before and after each
/// page.
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
  /// For each page of the batch: its slot in the test_pool.
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

  /// Gives the pages of the batch their memory. Call this after the last `add`.
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
    // By memcmp, because tests are not optimized, so that a loop over megabytes would take seconds.
    return got.size() == want.size() && std::memcmp(got.data(), want.data(), got.size()) == 0;
  }
};

enum class fault : std::uint8_t { none, silent, breaks, corrupts };

/// A data plane that reads, at most one server, and their common clock, which each step moves
/// forward.
class plane_rig {
public:
  /// @param what how pages are served: from slots of a pool, or as memory under leases
  explicit plane_rig(data_service what)
      : service(what),
        lent(what == data_service::handoff ? std::make_unique<lent_memory>() : nullptr) {}
  virtual ~plane_rig() = default;
  virtual data_plane& plane() = 0;
  /// Starts a server of `pool` with the incarnation `inc`, in place of an earlier server.
  virtual void serve(test_pool& pool, const incarnation& inc, fault what = fault::none) = 0;
  virtual void stop_serving() = 0;
  /// Copies the batch's pages into the lent memory, if the rig serves such memory.
  virtual void place(test_batch& what) {
    if (lent != nullptr && served != nullptr)
      lent->place(*served, what);
    else if (lent != nullptr)
      for (auto& page : what.batch.pages)
        // Any address will do, because nothing is served.
        page.source = memory_rows::one_piece(1, page.length_bytes);
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
  /// The memory under leases; null: pages are served from slots.
  const std::unique_ptr<lent_memory> lent;

protected:
  const test_pool* served = nullptr; ///< The pool of the last call of `serve`.
};

/// A certificate authority with certificates of a node and of a client, made once for all rigs.
struct rig_certificates {
  const certificates ca{"test"};
  const std::shared_ptr<net::tls_context> node = context_of(ca.node());
  const std::shared_ptr<net::tls_context> client = context_of(ca.client());

  static const rig_certificates& get() {
    static const rig_certificates made;
    return made;
  }
  /// Makes the object that carries out the node's TLS handshakes; the caller must run it.
  static std::unique_ptr<net::tls_handshakes> handshakes() {
    auto made = net::tls_handshakes::create(get().node);
    EXPECT_TRUE(made);
    return std::move(*made);
  }
};

std::unique_ptr<plane_rig> make_memory_rig(data_service what);
std::unique_ptr<plane_rig> make_tcp_rig(data_service what);

/// A rig with a TCP page server and a TCP data plane over loopback, which one thread polls in turn.
class tcp_rig final : public plane_rig {
public:
  /// Makes the rig. If the options have TLS, the server uses TLS, too, with the node's certificate
  /// of `rig_certificates`.
  explicit tcp_rig(const tcp_data_plane_options& opts = {}, data_service what = data_service::pool);
  data_plane& plane() override { return *reader; }
  void serve(test_pool& pool, const incarnation& inc, fault what = fault::none) override;
  void serve(test_pool& pool, tcp_page_server_options opts);
  void stop_serving() override { server.reset(); }
  peer_endpoint peer(const incarnation& inc) const override {
    return {{1}, inc, "127.0.0.1", port, "test", 0, service, name};
  }
  void step() override;

  std::string name; ///< Name by which the reader's counters count the server.
  /// The server's TLS handshakes, if the reader has TLS; null: connections are plain.
  std::unique_ptr<net::tls_handshakes> handshakes;
  std::unique_ptr<channel_data_plane> reader;
  std::unique_ptr<tcp_page_server> server;
  std::uint16_t port = 0;
  unsigned idle_steps = 0;
};

} // namespace peercache::rdma
