#include "tests/rdma/verbs/verbs_rig.hpp"

#include <sys/mman.h>

#include <thread>

namespace peercache::rdma {
namespace {

constexpr std::size_t table_bytes = readable_pool::granules * sizeof(slot_entry);
constexpr std::size_t pages_bytes = std::size_t{readable_pool::granules} * 4096;

} // namespace

readable_pool::readable_pool() {
  auto* mapped = ::mmap(nullptr, table_bytes + pages_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT_NE(mapped, MAP_FAILED);
  memory_ = static_cast<std::byte*>(mapped);
  table_ = reinterpret_cast<slot_entry*>(memory_);
  pages_ = memory_ + table_bytes;
}

readable_pool::~readable_pool() {
  ::munmap(memory_, table_bytes + pages_bytes);
}

served_region readable_pool::served() const {
  return {{memory_, table_bytes + pages_bytes}, pages_, granules};
}

slot_id readable_pool::place(const test_pool& pool, std::uint32_t slot) {
  const auto found = placed_.find(slot);
  if (found != placed_.end())
    return found->second;
  const auto& from = pool.slots.at(slot);
  const slot_id made{next_};
  next_ += static_cast<std::uint32_t>((from.bytes.size() + 4095) / 4096);
  EXPECT_LE(next_, granules);
  std::copy(from.bytes.begin(), from.bytes.end(), page(made));
  auto& it = entry(made);
  it.key = from.key;
  it.length_bytes = static_cast<std::uint32_t>(from.bytes.size());
  it.generation.store(from.gen.value);
  placed_.emplace(slot, made);
  return made;
}

verbs_rig::verbs_rig(verbs_rig_devices devices, verbs_data_plane_options options, data_service what)
    : plane_rig(what), devices_(std::move(devices)) {
  auto listener = net::listen_on("127.0.0.1", 0, 1);
  port_ = net::local_port(*listener); // Nobody listens at this port until `serve`.
  if (options.tls)
    handshakes_ = rig_certificates::handshakes();
  options.reader = {7, 7};
  options.name = "reader";
  auto opened = reader_rail::open(devices_.reader, {}, options);
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
  rail = std::move(*opened);
  auto made = make_verbs_data_plane(*rail);
  EXPECT_TRUE(made);
  reader = std::move(*made);
}

verbs_rig::~verbs_rig() {
  reader.reset();
  stop_serving();
}

void verbs_rig::serve(test_pool& pool, const incarnation& inc, fault what) {
  stop_serving();
  served = &pool;
  serves = what;
  auto device = verbs::device::open(devices_.server, {});
  ASSERT_TRUE(device) << device.error().message;
  verbs_server_options options;
  options.cluster = "test";
  options.inc = inc;
  options.node = server_name;
  options.chunk_bytes = chunk_bytes;
  options.windows = windows;
  auto made = verbs_rail_server::create(std::move(*device), options,
                                        lent != nullptr ? served_region::leases(lent->table())
                                                        : memory.served());
  ASSERT_TRUE(made) << made.error().message;
  server = std::move(*made);
  for (std::uint32_t i = 0; i < chunks_at_start && server->regions().register_next(); ++i) {
  }
  if (lent != nullptr) {
    const auto added = server->spans().add(lent->memory());
    ASSERT_TRUE(added) << to_string(added.error());
  }
  tcp_page_server_options accepting;
  accepting.port = port_;
  accepting.cluster = "test";
  accepting.inc = inc;
  accepting.handshakes = handshakes_.get();
  accepting.on_verbs_hello = [this](net::stream_socket socket, const verbs_hello& greeting,
                                    auto came_at) {
    server->accept(std::move(socket), greeting, came_at);
  };
  auto acceptor = lent != nullptr ? tcp_page_server::listen(accepting, lent->spans)
                                  : tcp_page_server::listen(accepting, pool);
  ASSERT_TRUE(acceptor) << acceptor.error().message;
  acceptor_ = std::move(*acceptor);
}

void verbs_rig::stop_serving() {
  acceptor_.reset();
  server.reset();
}

void verbs_rig::place(test_batch& what) {
  if (lent != nullptr)
    return plane_rig::place(what);
  if (served == nullptr)
    return;
  for (std::size_t i = 0; i < what.batch.pages.size(); ++i)
    if (what.batch.pages[i].slot.value == what.from_slots[i])
      what.batch.pages[i].slot = memory.place(*served, what.from_slots[i]);
}

void verbs_rig::step() {
  devices_.pass_time(*this);
  reader->poll(now);
  if (acceptor_ == nullptr || serves == fault::silent)
    return;
  if (handshakes_)
    handshakes_->turn(clock::duration::zero());
  acceptor_->poll(now);
  server->poll(now);
}

void verbs_rig::serve_turn() {
  acceptor_->poll(clock::now());
  server->poll(clock::now());
  std::this_thread::yield();
}

} // namespace peercache::rdma
