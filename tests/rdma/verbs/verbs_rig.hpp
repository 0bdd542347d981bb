#pragma once

#include "common/slot_entry.hpp"
#include "rdma/verbs/verbs_rail_server.hpp"
#include "rdma/verbs/verbs_transport.hpp"
#include "tests/rdma/plane_rig.hpp"

#include <map>
#include <memory>
#include <string>

namespace peercache::rdma {

/// A pool's memory that peers READ: the slot table, followed by the pages.
class readable_pool {
public:
  /// Number of granules in 96 MiB, which real devices can pin.
  static constexpr std::uint32_t granules = 24u << 10;

  readable_pool();
  ~readable_pool();
  readable_pool(const readable_pool&) = delete;
  readable_pool& operator=(const readable_pool&) = delete;

  /// Returns the slot of this page in the served memory; copies the page there at the first call.
  slot_id place(const test_pool& pool, std::uint32_t slot);
  served_region served() const;
  slot_entry& entry(slot_id slot) const { return table_[slot.value]; }
  std::byte* page(slot_id slot) const { return pages_ + std::size_t{slot.value} * 4096; }

private:
  std::byte* memory_ = nullptr;
  slot_entry* table_ = nullptr;
  std::byte* pages_ = nullptr;
  std::uint32_t next_ = 0;
  std::map<std::uint32_t, slot_id> placed_;
};

/// The names of the devices of a rig's reader and server, and a function that lets time pass after
/// a step.
struct verbs_rig_devices {
  std::string reader;
  std::string server;
  std::function<void(plane_rig&)> pass_time;
};

/// A rig with a verbs data plane, a rail server and a page server, which one thread polls in turn.
class verbs_rig : public plane_rig {
public:
  explicit verbs_rig(verbs_rig_devices devices, verbs_data_plane_options options = {},
                     data_service what = data_service::pool);
  ~verbs_rig() override;

  data_plane& plane() override { return *reader; }
  void serve(test_pool& pool, const incarnation& inc, fault what = fault::none) override;
  void stop_serving() override;
  void place(test_batch& what) override;
  peer_endpoint peer(const incarnation& inc) const override {
    return {{1}, inc, "127.0.0.1", port_, "test", 1, service};
  }
  void step() override;
  /// Polls the servers only, for a reader that other threads run.
  void serve_turn();

  readable_pool memory;
  std::unique_ptr<reader_rail> rail;
  std::unique_ptr<channel_data_plane> reader;
  std::unique_ptr<verbs_rail_server> server;
  fault serves = fault::none;
  std::string server_name = "server";   ///< Name of the server that the next `serve` starts.
  std::uint64_t chunk_bytes = 1u << 30; ///< Size of the chunks that the next `serve` makes.
  bool windows = false;                 ///< Whether the next `serve` tells keys of memory windows.
  /// How many chunks the next `serve` registers.
  std::uint32_t chunks_at_start = ~std::uint32_t{0};

private:
  const verbs_rig_devices devices_;
  /// The server's TLS handshakes, if the reader has TLS; null: connections are plain.
  std::unique_ptr<net::tls_handshakes> handshakes_;
  std::uint16_t port_ = 0;
  std::unique_ptr<tcp_page_server> acceptor_;
};

/// Makes a rig over the fake provider, whose fabric has a fixed seed.
std::unique_ptr<plane_rig> make_verbs_rig(data_service what);
/// Makes a rig over the fake provider whose connections are under TLS. Soft-RoCE has no such rig.
std::unique_ptr<plane_rig> make_verbs_tls_rig(data_service what);
/// Makes a rig over the fake provider whose server tells keys of memory windows.
std::unique_ptr<plane_rig> make_verbs_windows_rig(data_service what);

} // namespace peercache::rdma
