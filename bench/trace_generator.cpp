#include "bench/trace_generator.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <queue>
#include <random>
#include <utility>

namespace peercache::bench {

namespace {

// Constants that are fitted to Mooncake's trace; lengths are in pages of 512 tokens.
constexpr std::uint32_t tokens_per_page = 512;
constexpr std::size_t prompt_pages_max = 248;
/// Share of requests that are followed by another turn of their conversation.
constexpr double next_turn_share = 0.345;
/// Share of new conversations that branch off an earlier conversation.
constexpr double branch_share = 0.09;
constexpr double first_pages_median = 10, first_pages_spread = 1.2;
constexpr double more_pages_median = 2, more_pages_spread = 1.5;
constexpr double pause_ms_median = 123'000, pause_spread = 1.0;
constexpr double output_tokens_median = 240, output_tokens_spread = 0.8;

/// Random numbers that are the same with every standard library: std::mt19937_64 with distributions
/// made here, since those of the libraries differ.
class random_source {
public:
  explicit random_source(std::uint64_t seed) : bits_(seed) {}

  /// Returns a random number in [0, 1).
  double uniform() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  std::size_t below(std::size_t end) {
    return static_cast<std::size_t>(uniform() * static_cast<double>(end));
  }
  double log_normal(double median, double spread) {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return median * std::exp(spread * radius * std::cos(2 * std::numbers::pi * uniform()));
  }

private:
  std::mt19937_64 bits_;
};

struct turn {
  std::uint64_t due_ms = 0;
  std::size_t previous = 0; ///< Index of the request that this turn continues.
  bool operator>(const turn& other) const {
    return std::pair(due_ms, previous) > std::pair(other.due_ms, other.previous);
  }
};

class generator {
public:
  explicit generator(const trace_generator_options& options)
      : options_(options), random_(options.seed) {}

  std::vector<trace_request> run() {
    requests_.reserve(options_.requests);
    while (requests_.size() < options_.requests) {
      const std::uint64_t now_ms = options_.duration_ms * requests_.size() / options_.requests;
      requests_.push_back(request_of(prompt_at(now_ms), now_ms));
      if (random_.uniform() < next_turn_share) {
        const double pause_ms = random_.log_normal(pause_ms_median, pause_spread);
        waiting_.push({now_ms + static_cast<std::uint64_t>(pause_ms), requests_.size() - 1});
      }
    }
    return std::move(requests_);
  }

private:
  std::vector<std::uint64_t> prompt_at(std::uint64_t now_ms) {
    if (!waiting_.empty() && waiting_.top().due_ms <= now_ms) {
      const std::size_t previous = waiting_.top().previous;
      waiting_.pop();
      return next_prompt(requests_[previous].page_ids);
    }
    std::vector<std::uint64_t> pages{system_page};
    if (!requests_.empty() && random_.uniform() < branch_share) {
      const auto& other = requests_[random_.below(requests_.size())].page_ids;
      pages.assign(other.begin(), std::next(other.begin(), 1 + static_cast<std::ptrdiff_t>(
                                                                   random_.below(other.size()))));
    }
    add_pages(pages, random_.log_normal(first_pages_median, first_pages_spread));
    return pages;
  }

  std::vector<std::uint64_t> next_prompt(std::vector<std::uint64_t> pages) {
    if (pages.size() > 1) {
      pages.pop_back();
    }
    add_pages(pages, 1 + random_.log_normal(more_pages_median, more_pages_spread));
    return pages;
  }

  /// Appends `count` new pages, at least one, as far as the longest prompt allows.
  void add_pages(std::vector<std::uint64_t>& pages, double count) {
    const std::size_t room = prompt_pages_max - std::min(prompt_pages_max, pages.size());
    const auto more =
        static_cast<std::size_t>(std::min(std::max(1.0, count), static_cast<double>(room)));
    for (std::size_t i = 0; i < more; ++i) {
      pages.push_back(next_page_++);
    }
  }

  trace_request request_of(std::vector<std::uint64_t> pages, std::uint64_t now_ms) {
    trace_request request;
    request.timestamp_ms = now_ms;
    const std::size_t unfilled = random_.below(tokens_per_page);
    request.input_length_tokens =
        static_cast<std::uint32_t>(pages.size() * tokens_per_page - unfilled);
    request.output_length_tokens = static_cast<std::uint32_t>(
        1 + std::min(4000.0, random_.log_normal(output_tokens_median, output_tokens_spread)));
    request.page_ids = std::move(pages);
    return request;
  }

  static constexpr std::uint64_t system_page = 0;

  trace_generator_options options_;
  random_source random_;
  std::vector<trace_request> requests_;
  std::priority_queue<turn, std::vector<turn>, std::greater<>> waiting_;
  std::uint64_t next_page_ = system_page + 1;
};

} // namespace

std::vector<trace_request> generate_trace(const trace_generator_options& options) {
  return generator(options).run();
}

} // namespace peercache::bench
