#pragma once

#include "common/circuit_breaker.hpp"
#include "rdma/batch_job.hpp"
#include "rdma/data_plane.hpp"
#include "rdma/page_source.hpp"
#include "rdma/published_stats.hpp"
#include "rdma/served_spans.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace peercache::rdma {

/// A simulated network: which processes serve at which addresses, and how they misbehave. Threads:
/// only the thread of the data planes. Ownership: sources and spans must live from `attach` to
/// `detach`.
class memory_network {
public:
  enum class behaviour : std::uint8_t {
    serves,
    silent,  ///< The server accepts requests and never answers.
    breaks,  ///< The server breaks the connection in the middle of each answer.
    corrupts ///< The network flips a byte of each page.
  };

  struct host {
    incarnation inc;
    page_source* source = nullptr;
    behaviour acts = behaviour::serves;
    const served_spans* spans = nullptr; ///< Memory spans that the host serves instead of `source`;
                                         ///< null when it serves `source`.
    std::vector<std::span<const std::byte>> areas; ///< Memory that the host serves beside `source`.

    data_service service() const noexcept {
      return source != nullptr ? data_service::pool : data_service::handoff;
    }
  };

  void attach(const std::string& name, std::uint16_t port, const incarnation& inc,
              page_source& source, behaviour acts = behaviour::serves) {
    hosts_[{name, port}] = {inc, &source, acts, nullptr, {}};
  }
  void attach(const std::string& name, std::uint16_t port, const incarnation& inc,
              const served_spans& spans, behaviour acts = behaviour::serves) {
    hosts_[{name, port}] = {inc, nullptr, acts, &spans, {}};
  }
  /// Lets a host serve memory beside its pages, as a rail does; the memory lives until `detach`.
  /// @pre a host is attached there
  void add_area(const std::string& name, std::uint16_t port, std::span<const std::byte> memory) {
    hosts_.at({name, port}).areas.push_back(memory);
  }
  void detach(const std::string& name, std::uint16_t port) { hosts_.erase({name, port}); }
  /// Returns the server at an address; null when nobody listens there.
  const host* find(const std::string& name, std::uint16_t port) const {
    const auto found = hosts_.find({name, port});
    return found == hosts_.end() ? nullptr : &found->second;
  }

private:
  std::map<std::pair<std::string, std::uint16_t>, host> hosts_;
};

struct memory_data_plane_options {
  std::uint64_t seed = 1;
  clock::duration delay_min = std::chrono::microseconds(10);
  clock::duration delay_max = std::chrono::microseconds(500);
  std::uint32_t lost_per_mille = 0; ///< Share of requests that get no answer.
  /// Share of answers that arrive after the deadline; their pages are pinned until then.
  std::uint32_t late_per_mille = 0;
  /// Most pages of one request; few, so that a batch has several answers, which overtake each
  /// other.
  std::uint32_t request_pages_max = 8;
  std::uint32_t batches_max = 4096;
  circuit_breaker::options breaker;
};

/// A simulated data plane: the same seed and the same calls give the same run. Answers take a
/// random time, overtake each other, get lost, or come after the deadline. A page under a lease is
/// copied when its answer arrives, long after the request looked at the lease. So only the check of
/// the lease after the copy finds a lease that ended in between. Threads: as data_plane says. Time:
/// passes only by the argument of `poll`. Errors: as channel_data_plane's. Invariants: (1) a page
/// is pinned from the arrival of its request to the copy of its bytes, and no pin is left when its
/// batch has finished; (2) an answer that comes after its batch has finished is dropped, and
/// counted, as real planes drop it by destroying the connection.
class memory_data_plane final : public data_plane {
public:
  memory_data_plane(const memory_network& network, const memory_data_plane_options& opts);
  ~memory_data_plane() override;

  void submit(read_batch& batch) override;
  void cancel(const read_batch& batch) override;
  bool poll(clock::time_point now) override;
  void wait(clock::duration at_most) override;
  void wake() noexcept override;
  void shutdown() override;
  data_plane_stats stats() const override { return published_.read(); }

private:
  struct flight {
    batch_job job;
    std::vector<slot_id> pinned;
    page_source* source = nullptr;
    const served_spans* spans = nullptr;
  };
  /// A sub-request on its way to the server, or its answer on its way back.
  struct transfer {
    std::uint64_t job_id = 0;
    sub_request sub;
    bool answer = false;
    /// Where the payloads of the hits lie, by position in `sub`.
    std::vector<memory_rows> payloads;
  };

  void start(read_batch& batch);
  /// Copies pieces of areas at once, which no thread of the host has a part in.
  void read_areas(flight& from, const memory_network::host& host);
  void send_request(flight& from, const sub_request& sub);
  void arrive(transfer& what);
  void request_arrives(flight& at, transfer& request);
  void answer_arrives(flight& at, const transfer& answer, memory_network::behaviour acts);
  page_status take(flight& at, const page_read& page, memory_rows& bytes);
  void receive_page(flight& at, page_read& page, const memory_rows& bytes, bool damaged);
  void complete(flight& which, page_status undecided);
  clock::duration random_delay();
  bool happens(std::uint32_t per_mille);

  const memory_network& network_;
  const memory_data_plane_options options_;
  std::mt19937_64 random_;
  clock::time_point now_{};
  bool shut_down_ = false;
  std::vector<read_batch*> submitted_;
  std::unordered_map<std::uint64_t, std::unique_ptr<flight>> flights_;
  std::multimap<clock::time_point, transfer> transfers_;
  std::multimap<clock::time_point, std::uint64_t> deadlines_;
  std::unordered_map<incarnation, circuit_breaker> breakers_;
  std::uint64_t next_id_ = 1;
  data_plane_stats stats_;

  // Members that any thread may use.
  published_stats published_;
  std::atomic<std::uint32_t> wakes_{0};
};

} // namespace peercache::rdma
