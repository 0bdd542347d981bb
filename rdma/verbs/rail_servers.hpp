#pragma once

#include "common/result.hpp"
#include "net/stream_socket.hpp"
#include "rdma/verbs/rail_choice.hpp"
#include "rdma/verbs/verbs_protocol.hpp"
#include "rdma/verbs/verbs_server_options.hpp"
#include "rdma/verbs/verbs_server_stats.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace peercache::rdma {

class verbs_rail_server;

/// Lets other hosts READ what this process serves over all its rails: one rail server for each
/// device, each with a thread of its own, and threads that register the region at start. Without
/// rails it does nothing. Threads: `run` in one thread per rail, `register_region` in any number of
/// threads, the rest in any thread. Ownership: owns devices and queue pairs; the region, areas, and
/// spans until they are removed, are lent.
class rail_servers {
public:
  /// Opens the rails of `choice`. A rail that fails is left out, unless `settings` demand verbs.
  /// Errors: `incompatible` when they demand windows and a device has none.
  /// @param common options that all rails have in common; the index, path and callbacks of each
  ///   rail are set here
  static result<std::unique_ptr<rail_servers>> open(const rail_choice& choice,
                                                    const rail_settings& settings,
                                                    const verbs_server_options& common,
                                                    const served_region& region);
  ~rail_servers();

  std::size_t rails() const noexcept { return rails_.size(); }
  /// The names of the chosen rails and the reason for the choice, in words.
  const std::string& choice() const noexcept { return choice_; }

  /// Takes a connection that has said a verbs hello, for the rail that the hello names.
  /// @param came_at when the connection was accepted
  /// @pre there are rails
  void accept(net::stream_socket socket, const verbs_hello& greeting,
              std::chrono::steady_clock::time_point came_at);

  /// The body of a rail's thread: returns after `stop`.
  void run(std::size_t rail);
  /// Registers chunks of the region with all rails until none is left, or until `stop`.
  void register_region();
  void stop() noexcept;

  /// Lets the memory be READ under leases over all rails; when one rail fails, over none.
  /// @param device registers memory that it holds by a dmabuf; null: the span is host memory
  /// @pre the region is a table of leases
  result<void> add_span(std::span<std::byte> memory, device_memory* device = nullptr);
  /// Ends the serving of the span that begins at `begin`: when this returns, no device reads the
  /// span.
  void remove_span(const std::byte* begin);

  /// Lets other hosts READ memory beside the pool over all rails, for batches that their callers
  /// judge (`read_batch::judged`). Any thread may call it, before and while the rails serve; the
  /// memory is served until this object ends, and stays where it is as long, also when this fails.
  /// Registering pins all of its bytes, so memory that was never touched becomes resident. When
  /// this returns, the devices answer; readers that are connected hear of it a moment later, and
  /// until then their READs of it end as `unreachable`. Errors: the first rail's that failed, with
  /// its name, for overlap or too many chunks (`area_chunks_max`, of `chunk_bytes`) or as the
  /// device says; the other rails serve the area all the same, and over a rail that does not, its
  /// pieces are `unreachable`, as are those of all areas over a rail without the lowest one. Such a
  /// rail tries again with the next area. Without rails it does nothing.
  /// @pre the region is a pool
  result<void> add_area(std::span<std::byte> memory);

  struct rail_snapshot {
    std::string device;
    verbs_rail_stats stats;
  };
  /// A snapshot of each rail, at most 100 ms old.
  std::vector<rail_snapshot> latest() const;

private:
  struct rail {
    std::string name;
    std::unique_ptr<verbs_rail_server> server;
  };

  rail_servers() = default;
  result<void> add_rail(const rail_choice::rail& which, const rail_settings& settings,
                        verbs_server_options options, const served_region& region);

  std::string choice_;
  std::vector<rail> rails_;
  std::atomic<bool> stop_{false};
};

} // namespace peercache::rdma
