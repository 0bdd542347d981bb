#pragma once

#include "net/socket.hpp"
#include "rdma/batch_job.hpp"
#include "rdma/data_plane.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace peercache::rdma {

/// One connection of a reader to a peer, whatever carries the bytes. A channel connects first, and
/// then serves one batch at a time.
/// Threads: none; the plane's owner serializes. Ownership: borrows the job it is attached to; once
/// closed or detached the channel writes to no part of the job. Errors: `step` returns `broken`,
/// `loss()` says why, and the channel is no longer usable. Invariants: (1) a channel carries bytes
/// of at most one job; (2) everything that the channel received for a job is decided or dropped
/// before it serves another job.
class page_channel {
public:
  enum class phase : std::uint8_t { connecting, greeting, ready, broken };
  enum class loss_reason : std::uint8_t {
    none,
    not_connected, ///< The connection was refused, reset or closed before the hello was answered.
    other_incarnation,
    /// The peer is of another cluster, speaks another wire version, or has no such service.
    not_accepted,
    closed,    ///< The peer closed the connection, or the connection failed.
    violation, ///< The peer said what the protocol does not allow.
    bad_memory ///< A part of a page lies where this process may not write: the caller's fault.
  };
  enum class progress : std::uint8_t {
    blocked,   ///< The channel cannot move before epoll reports an event.
    in_flight, ///< The device works: step again at every poll, or `arm` and wait for the event.
    moved,
    broken
  };

  page_channel(std::uint64_t id, clock::time_point now)
      : id_(id), opened_at_(now), idle_since_(now) {}
  page_channel(const page_channel&) = delete;
  page_channel& operator=(const page_channel&) = delete;
  virtual ~page_channel() = default;

  std::uint64_t id() const noexcept { return id_; }
  phase where() const noexcept { return phase_; }
  loss_reason loss() const noexcept { return loss_; }
  batch_job* job() const noexcept { return job_; }
  bool idle() const noexcept { return phase_ == phase::ready && job_ == nullptr; }
  clock::time_point opened_at() const noexcept { return opened_at_; }
  clock::time_point idle_since() const noexcept { return idle_since_; }
  /// Whether the connection had served before its job was attached and nothing has arrived since:
  /// when such a connection breaks, the peer had probably closed it long ago.
  bool may_be_stale() const noexcept { return served_before_ && !heard_since_attach_; }

  /// Gives the channel a job, whose pages the channel asks for from now on. @pre the channel has no
  /// job
  void attach(batch_job& job) noexcept;
  /// Takes the job off the channel, which is idle from `now` on. @pre carries_nothing()
  void detach(clock::time_point now) noexcept;

  /// Whether no sub-request of the channel's job is on its way.
  virtual bool carries_nothing() const noexcept = 0;
  /// Takes epoll's events of a descriptor that was added under this channel's id.
  virtual void on_events(std::uint32_t events) noexcept = 0;
  /// Sends and receives until nothing can move or `bytes_left` is used up; takes the bytes that
  /// have arrived off `bytes_left`.
  virtual progress step(std::size_t& bytes_left) = 0;
  /// Lets the device wake the thread, which is about to sleep while this channel is `in_flight`.
  /// False when a completion has come meanwhile: the thread must step again instead of sleeping.
  virtual bool arm() noexcept { return true; }
  /// Ends the connection: after this call nothing is written to the job's memory, whatever arrives
  /// late. Returns the sub-requests that the channel had taken and not decided. Work that takes
  /// time and writes to no page, such as the end of a socket, is left to the destructor.
  virtual std::vector<sub_request> close() noexcept = 0;

protected:
  bool broken(loss_reason why) noexcept {
    loss_ = why;
    phase_ = phase::broken;
    return false;
  }

  const std::uint64_t id_;
  const clock::time_point opened_at_;
  phase phase_ = phase::connecting;
  loss_reason loss_ = loss_reason::none;
  bool served_before_ = false;
  bool heard_since_attach_ = false;
  clock::time_point idle_since_;
  batch_job* job_ = nullptr;
};

/// Makes the channels of a `channel_data_plane`: over TCP, or over one rail of a verbs device.
/// Threads: the plane's owner.
class transport {
public:
  virtual ~transport() = default;

  /// The limits by which this batch is cut into sub-requests for this transport.
  virtual sub_request_limits cut(const read_batch& batch) const noexcept = 0;
  /// How many channels a batch of `bytes` in `pieces` pieces may use at once.
  virtual std::uint32_t channels_for(std::uint64_t bytes, std::size_t pieces) const noexcept = 0;
  /// Starts to connect to `peer`; the channel's descriptors are added to `events` under `id`. Null
  /// when the machine cannot connect (out of descriptors, the rail is down).
  virtual std::unique_ptr<page_channel> open(std::uint64_t id, const peer_endpoint& peer,
                                             net::event_poll& events, clock::time_point now) = 0;
  /// Whether the transport's channels take batches that their callers judge (`read_batch::judged`).
  virtual bool reads_areas() const noexcept { return false; }
  /// Makes the calling thread the plane's owner.
  virtual void adopt() noexcept {}
  /// Lets the transport as a whole work, such as take a device's events; the plane calls it once
  /// per poll. False when none of the transport's channels can go on.
  virtual bool poll(clock::time_point) { return true; }
};

} // namespace peercache::rdma
