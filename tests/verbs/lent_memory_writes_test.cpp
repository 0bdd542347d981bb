#include "tests/rdma/verbs/verbs_rail_rig.hpp"
#include "tests/verbs/rail_pair.hpp"

namespace peercache::rdma::verbs::lent_memory_writes_test {

namespace {

/// Waits for the next completion. Returns its status; nothing when none comes for a long time.
std::optional<ibv_wc_status> next_status(rail_reader& reader) {
  const auto until = clock::now() + std::chrono::seconds(30);
  ibv_wc done{};
  while (reader.completions.poll({&done, 1}) == 0) {
    if (clock::now() > until)
      return std::nullopt;
    std::this_thread::yield();
  }
  return done.status;
}

std::optional<ibv_wc_status> run(rail_reader& reader, ibv_wr_opcode opcode,
                                 const region_chunk& chunk) {
  ibv_sge piece{reader.region.address(), 8, reader.region.local_key()};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic = {
        .remote_addr = chunk.address, .compare_add = 1, .swap = 1, .rkey = chunk.rkey};
  } else {
    request.wr.rdma.remote_addr = chunk.address;
    request.wr.rdma.rkey = chunk.rkey;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(reader.pair.post(&request, &bad), 0);
  return next_status(reader);
}

/// Memory under leases, as a prefill worker serves it, and a reader that has got its address and
/// key.
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

  /// Returns the chunk of memory with the pages, as the server announces it to the reader.
  std::optional<region_chunk> chunk_for(rail_reader& reader) {
    reader.greeting.service = data_service::handoff;
    reader.come(*server);
    poll_until([&] {
      pollfd answered{reader.peer.fd.get(), POLLIN, 0};
      return ::poll(&answered, 1, 0) == 1;
    });
    reader.connect();
    reader.peer.say(verbs_ready{});
    const auto address = reinterpret_cast<std::uint64_t>(pages.data());
    std::optional<region_chunk> found;
    poll_until([&] {
      reader.take_chunks();
      for (const auto& each : reader.chunks)
        if (each.address <= address && address - each.address < each.bytes)
          found = each;
      return found.has_value();
    });
    if (found)
      found->address = address;
    return found;
  }

  void poll_until(const std::function<bool()>& holds) {
    const auto until = clock::now() + std::chrono::seconds(30);
    while (!holds() && clock::now() < until)
      server->poll(clock::now());
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
