#include "rdma/verbs/queue_pair.hpp"

#include "common/assert.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <sys/random.h>
#include <utility>

namespace peercache::rdma::verbs {

namespace {

constexpr std::uint32_t largest_24_bits = 0xffffff;
constexpr double timeout_unit_seconds = 4.096e-6;
/// Until this time a dead peer must have shown.
constexpr int longest_wait_limit_seconds = 4;
// RNR timer of 0.64 ms; a queue pair has to have one, but READs consume no receive, so it never
// runs.
constexpr std::uint8_t rnr_timer = 12;

error refusal(const device& on, const std::string& what, int number) {
  return {errc::refused, what + " on " + on.port().device + ": " + std::strerror(number)};
}

error cannot_create(const device& on, std::uint32_t depth, std::uint32_t sge, int number) {
  error why = refusal(on,
                      "no queue pair of " + std::to_string(depth) + " work requests with " +
                          std::to_string(sge) + " pieces each",
                      number);
  if (number == ENOMEM)
    why.message += "; the device has no more (`rdma resource show`), or locked memory is short "
                   "(`ulimit -l`)";
  return why;
}

int to_init(ibv_qp* pair, std::uint8_t port, queue_pair_use use) noexcept {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_INIT;
  to.port_num = port;
  to.pkey_index = 0;
  to.qp_access_flags =
      use == queue_pair_use::server ? static_cast<unsigned>(IBV_ACCESS_REMOTE_READ) : 0U;
  return ::ibv_modify_qp(pair, &to,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

bool other_subnet(const gid_bytes& ours, const gid_bytes& theirs) noexcept {
  return theirs != gid_bytes{} && !std::equal(ours.begin(), ours.begin() + 8, theirs.begin());
}

ibv_ah_attr address_of(const port_report& own, const path& to,
                       const path_options& options) noexcept {
  ibv_ah_attr address{};
  address.port_num = own.port;
  address.sl = options.service_level;
  address.dlid = to.remote_lid;
  address.is_global =
      own.layer == link_layer::ethernet || other_subnet(own.gid, to.remote_gid) ? 1 : 0;
  if (address.is_global != 0) {
    std::memcpy(address.grh.dgid.raw, to.remote_gid.data(), to.remote_gid.size());
    address.grh.sgid_index = static_cast<std::uint8_t>(own.gid_index);
    address.grh.hop_limit = options.hop_limit;
    address.grh.traffic_class = options.traffic_class;
  }
  return address;
}

int to_rtr(ibv_qp* pair, const ibv_ah_attr& address, const path& to) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr = address;
  // The enum counts from 1 for 256 bytes: log2(256) is 8.
  attributes.path_mtu = static_cast<ibv_mtu>(std::countr_zero(to.mtu_bytes) - 7);
  attributes.dest_qp_num = to.remote_queue_pair;
  attributes.rq_psn = to.remote_psn;
  attributes.max_dest_rd_atomic = to.responder_depth;
  attributes.min_rnr_timer = rnr_timer;
  return ::ibv_modify_qp(pair, &attributes,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int to_rts(ibv_qp* pair, const path& to, const path_options& options) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = options.timeout;
  attributes.retry_cnt = options.retries;
  attributes.rnr_retry = options.rnr_retries;
  attributes.sq_psn = to.own_psn;
  attributes.max_rd_atomic = to.initiator_depth;
  return ::ibv_modify_qp(pair, &attributes,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/// Checks a path, whose values come from a handshake: a path that makes no sense is the other end's
/// fault, and so an error, not an assertion.
result<void> check_path(const path& to, const port_report& own) {
  if (to.remote_queue_pair == 0 || to.remote_queue_pair > largest_24_bits)
    return {errc::invalid_argument, "a queue pair's number has 24 bits and is not 0"};
  if (to.remote_psn > largest_24_bits || to.own_psn > largest_24_bits)
    return {errc::invalid_argument, "a packet sequence number has 24 bits"};
  if (!std::has_single_bit(to.mtu_bytes) || to.mtu_bytes < 256 || to.mtu_bytes > 4096)
    return {errc::invalid_argument,
            "a path's MTU is 256, 512, 1024, 2048 or 4096, not " + std::to_string(to.mtu_bytes)};
  if (to.mtu_bytes > own.can.mtu_bytes)
    return {errc::invalid_argument, "the path's MTU of " + std::to_string(to.mtu_bytes) +
                                        " is more than the port's " +
                                        std::to_string(own.can.mtu_bytes)};
  if (to.initiator_depth > own.can.initiator_depth || to.responder_depth > own.can.responder_depth)
    return {errc::invalid_argument, "more READs at a time than " + own.device + " can"};
  if (own.layer == link_layer::ethernet && to.remote_gid == gid_bytes{})
    return {errc::invalid_argument, "the other end sent no GID"};
  return {};
}

/// The longest time until a dead peer shows: a provider may take up to four times the nominal
/// time-out (InfiniBand Architecture Specification 1.4, 9.7.6.1.3).
double longest_wait_seconds(const path_options& options) noexcept {
  return 4 * (options.retries + 1) * timeout_unit_seconds * std::ldexp(1.0, options.timeout);
}

} // namespace

result<void> check(const path_options& options) {
  if (options.retries < 1 || options.retries > 6 || options.rnr_retries > 6)
    return {errc::invalid_argument,
            "retries are 1 to 6, retries when the receiver is not ready 0 to 6: 7 means for ever"};
  if (options.timeout < 1 || options.timeout > 31)
    return {errc::invalid_argument, "the packet time-out is 1 to 31 (4.096 µs × 2^n): 0 means for "
                                    "ever"};
  if (options.service_level > 15)
    return {errc::invalid_argument, "a service level is 0 to 15"};
  if (options.hop_limit == 0)
    return {errc::invalid_argument, "the hop limit is at least 1; 64 passes routers"};
  if (const auto wait = longest_wait_seconds(options); wait >= longest_wait_limit_seconds)
    return {errc::invalid_argument,
            "with a packet time-out of 4.096 µs × 2^" + std::to_string(options.timeout) + " and " +
                std::to_string(options.retries) + " retries a dead peer may show only after " +
                std::to_string(wait) + " s: it must be less than " +
                std::to_string(longest_wait_limit_seconds) + " s"};
  return {};
}

result<queue_pair> queue_pair::create(const device& on, completion_queue& completions,
                                      queue_pair_use use, std::uint32_t send_depth,
                                      std::uint32_t sge) {
  on.assert_owned();
  PEERCACHE_ASSERT(send_depth > 0 && sge > 0);
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = completions.get();
  wanted.recv_cq = completions.get();
  wanted.cap.max_send_wr = send_depth;
  wanted.cap.max_send_sge = sge;
  // A receive queue of one entry, which nothing uses, because some providers refuse 0.
  wanted.cap.max_recv_wr = 1;
  wanted.cap.max_recv_sge = 1;
  ibv_qp* raw = ::ibv_create_qp(on.domain(), &wanted);
  if (raw == nullptr)
    return cannot_create(on, send_depth, sge, errno);
  queue_pair pair(on, raw);
  if (const int number = to_init(raw, on.port().port, use); number != 0)
    return refusal(on, "the queue pair cannot be initialized", number);
  return pair;
}

result<void> queue_pair::connect(const path& to, const path_options& options) {
  PEERCACHE_ASSERT(pair_ != nullptr);
  device_->assert_owned();
  if (auto sensible = check_path(to, device_->port()); !sensible)
    return sensible;
  if (auto sensible = check(options); !sensible)
    return sensible;
  const ibv_ah_attr address = address_of(device_->port(), to, options);
  if (const int number = to_rtr(pair_, address, to); number != 0) {
    error why = refusal(*device_,
                        "the way to " + to_string(to.remote_gid) + " (LID " +
                            std::to_string(to.remote_lid) + ") cannot be set up",
                        number);
    if (number == ENETUNREACH || number == EHOSTUNREACH || number == ETIMEDOUT)
      why.message += ": is there a route from " + to_string(device_->port().gid) + " to it?";
    return why;
  }
  if (const int number = to_rts(pair_, to, options); number != 0)
    return refusal(*device_, "the queue pair cannot be made ready to send", number);
  return {};
}

std::optional<std::uint32_t> queue_pair::expected_psn() const noexcept {
  PEERCACHE_ASSERT(pair_ != nullptr);
  device_->assert_owned();
  ibv_qp_attr attributes{};
  ibv_qp_init_attr ignored{};
  if (::ibv_query_qp(pair_, &attributes, IBV_QP_RQ_PSN, &ignored) != 0)
    return std::nullopt;
  return attributes.rq_psn;
}

queue_pair::queue_pair(queue_pair&& other) noexcept
    : device_(other.device_), pair_(std::exchange(other.pair_, nullptr)) {}

queue_pair& queue_pair::operator=(queue_pair&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pair_, other.pair_);
  return *this;
}

void queue_pair::stop() noexcept {
  PEERCACHE_ASSERT(pair_ != nullptr);
  device_->assert_owned();
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_ERR;
  // A device that fails here is broken, and answers nothing either.
  [[maybe_unused]] const int failed = ::ibv_modify_qp(pair_, &to, IBV_QP_STATE);
}

void queue_pair::reset() noexcept {
  if (pair_ == nullptr)
    return;
  device_->assert_owned();
  PEERCACHE_ASSERT(::ibv_destroy_qp(std::exchange(pair_, nullptr)) != EBUSY);
}

std::uint32_t random_psn() {
  std::uint32_t bits = 0;
  PEERCACHE_ASSERT(::getrandom(&bits, sizeof bits, 0) == sizeof bits);
  return bits & largest_24_bits;
}

} // namespace peercache::rdma::verbs
