#include "storage/adaptive_policy.hpp"

#include <algorithm>
#include <utility>

namespace peercache::storage {

namespace {

/// A full shadow cache with fewer than `shadow_pages_max` / `widen_below` pages doubles the sample
/// of keys. An eighth is less than a half, so a sample that was just halved is not doubled at once.
constexpr std::size_t widen_below = 8;

/// The sample of keys is halved at most this many times, so that it does not vanish where pages are
/// tiny. The hash that chooses the sampled keys has 32 bits.
constexpr std::uint32_t halvings_max = 24;

} // namespace

adaptive_policy::adaptive_policy(std::uint64_t capacity_bytes, adaptive_options options)
    : capacity_bytes_(capacity_bytes), options_(options), shadow_lru_(lru{}, capacity_bytes),
      shadow_s3fifo_(s3fifo{capacity_bytes}, capacity_bytes) {
  PEERCACHE_ASSERT(capacity_bytes > 0);
  PEERCACHE_ASSERT(options.shadow_pages_max > 0 && options.memory_references > 0);
}

void adaptive_policy::insert(slot_id slot, const page_key& key, std::uint32_t length_bytes) {
  reference(key.prefix(), length_bytes);
  std::visit([&](auto& policy) { policy.insert(slot, key, length_bytes); }, active_);
}

void adaptive_policy::touch(slot_id slot) {
  const page_table& table =
      std::visit([](auto& policy) -> const page_table& { return policy.pages(); }, active_);
  const node_index node = table.find(slot);
  PEERCACHE_ASSERT(node != node_index::none);
  reference(table[node].key_digest, table[node].length_bytes);
  std::visit([&](auto& policy) { policy.touch(slot); }, active_);
}

void adaptive_policy::erase(slot_id slot) {
  std::visit([&](auto& policy) { policy.erase(slot); }, active_);
}

std::optional<slot_id> adaptive_policy::victim() {
  return std::visit([](auto& policy) { return policy.victim(); }, active_);
}

std::optional<slot_id> adaptive_policy::untouched_victim(const slot_test& may_go) {
  return std::visit([&](auto& policy) { return policy.untouched_victim(may_go); }, active_);
}

adaptive_stats adaptive_policy::stats() const noexcept {
  return {
      .active = std::holds_alternative<lru>(active_) ? eviction_kind::lru : eviction_kind::s3fifo,
      .switches = switches_,
      .sampled_references = sampled_references_,
      .lru_hit_rate = lru_hit_rate_,
      .s3fifo_hit_rate = s3fifo_hit_rate_,
      .sampled_share = 1.0 / static_cast<double>(1u << halvings_),
  };
}

std::size_t adaptive_policy::memory_bytes() const noexcept {
  return std::visit([](auto& policy) { return policy.memory_bytes(); }, active_) +
         shadow_lru_.memory_bytes() + shadow_s3fifo_.memory_bytes();
}

void adaptive_policy::reference(std::uint64_t key_digest, std::uint32_t length_bytes) {
  if (!in_sample(key_digest)) {
    return;
  }
  const bool lru_hit = shadow_lru_.reference(key_digest, length_bytes);
  const bool s3fifo_hit = shadow_s3fifo_.reference(key_digest, length_bytes);
  fit_sample();
  weigh(lru_hit, s3fifo_hit);
}

bool adaptive_policy::in_sample(std::uint64_t key_digest) const noexcept {
  const auto hash = static_cast<std::uint32_t>(mixed(key_digest));
  return (hash & ((1u << halvings_) - 1)) == 0;
}

void adaptive_policy::fit_sample() {
  if (shadow_lru_.size() > options_.shadow_pages_max && halvings_ < halvings_max) {
    set_sample(halvings_ + 1);
  } else if (halvings_ > 0 && shadow_lru_.is_full() &&
             shadow_lru_.size() * widen_below < options_.shadow_pages_max) {
    set_sample(halvings_ - 1);
  }
}

void adaptive_policy::set_sample(std::uint32_t halvings) {
  halvings_ = halvings;
  const auto keeps = [this](std::uint64_t key_digest) { return in_sample(key_digest); };
  const std::uint64_t shadow_bytes = std::max<std::uint64_t>(1, capacity_bytes_ >> halvings_);
  shadow_lru_.keep_only(keeps);
  shadow_lru_.resize(shadow_bytes);
  shadow_s3fifo_.keep_only(keeps);
  shadow_s3fifo_.resize(shadow_bytes);
}

void adaptive_policy::weigh(bool lru_hit, bool s3fifo_hit) {
  ++sampled_references_;
  // The hit rates are plain means until `memory_references` references were sampled, so that the
  // first references do not count too much.
  const auto weight =
      static_cast<double>(std::min<std::uint64_t>(sampled_references_, options_.memory_references));
  lru_hit_rate_ += ((lru_hit ? 1.0 : 0.0) - lru_hit_rate_) / weight;
  s3fifo_hit_rate_ += ((s3fifo_hit ? 1.0 : 0.0) - s3fifo_hit_rate_) / weight;
  if (sampled_references_ < options_.memory_references) {
    return;
  }
  if (std::holds_alternative<lru>(active_)) {
    if (s3fifo_hit_rate_ > lru_hit_rate_ + options_.margin) {
      switch_to(eviction_kind::s3fifo);
    }
  } else if (lru_hit_rate_ > s3fifo_hit_rate_ + options_.margin) {
    switch_to(eviction_kind::lru);
  }
}

void adaptive_policy::switch_to(eviction_kind kind) {
  resident_pages pages = std::visit([](auto& policy) { return policy.release(); }, active_);
  if (kind == eviction_kind::lru) {
    active_.emplace<lru>(std::move(pages));
  } else {
    active_.emplace<s3fifo>(capacity_bytes_, std::move(pages));
  }
  ++switches_;
}

} // namespace peercache::storage
