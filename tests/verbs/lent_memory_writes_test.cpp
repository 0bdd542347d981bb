#include "tests/verbs/rail_pair.hpp"
#include "tests/verbs/reader_work.hpp"

namespace peercache::rdma::verbs::lent_memory_writes_test {

namespace {

/// Memory under leases, as a prefill worker serves it, and a reader that was told of it.
class lent_memory_writes : public testing::Test {
protected:
  lent_memory_writes() {
    auto made = verbs_rail_server::create(must(device::open("rxe1", {})), rail_options(),
                                          served_region::leases(leases));
    EXPECT_TRUE(made) << to_string(made.error());
    server = std::move(*made);
    while (server->regions().register_next()) {
    }
    EXPECT_TRUE(server->spans().add(pages));
  }

  /// The chunk in which the pages lie, as the reader hears of it.
  std::optional<region_chunk> chunk_for(rail_reader& reader) {
    reader.greeting.service = data_service::handoff;
    // The table of leases is one chunk, and the pages are another.
    establish(reader, *server, 2);
    const auto address = reinterpret_cast<std::uint64_t>(pages.data());
    std::optional<region_chunk> found;
    for (const auto& each : reader.chunks)
      if (each.address <= address && address - each.address < each.bytes)
        found = each;
    if (found)
      found->address = address;
    return found;
  }

  std::vector<slot_entry> leases = std::vector<slot_entry>(4096);
  std::vector<std::byte> pages = std::vector<std::byte>(4u << 20, std::byte{0x42});
  std::unique_ptr<device> reads = must(device::open("rxe0", {}));
  std::unique_ptr<verbs_rail_server> server;
};

TEST_F(lent_memory_writes, are_refused_with_the_right_key_while_reads_are_served) {
  for (const auto opcode : {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    SCOPED_TRACE("opcode " + std::to_string(opcode));
    rail_reader reader(*reads, "decode " + std::to_string(opcode));
    const auto chunk = chunk_for(reader);
    ASSERT_TRUE(chunk);
    const bool is_read = opcode == IBV_WR_RDMA_READ;
    EXPECT_EQ(run(reader, opcode, *chunk), is_read ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(reader.memory[0], is_read ? std::byte{0x42} : std::byte{0});
    EXPECT_EQ(std::count(pages.begin(), pages.end(), std::byte{0x42}),
              static_cast<std::ptrdiff_t>(pages.size()));
  }
}

} // namespace
} // namespace peercache::rdma::verbs::lent_memory_writes_test
