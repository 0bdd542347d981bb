#pragma once

#include "bench/page_content.hpp"
#include "cli/node_process.hpp"
#include "client/cache_client.hpp"
#include "stress/stall_watch.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

namespace peercache::real {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The output and exit code of a program that ran to its end.
struct finished_program {
  int exit_code = -1;
  std::string output;

  nlohmann::json json() const { return nlohmann::json::parse(output, nullptr, false); }
};

/// Runs a program of the build and waits for its end.
finished_program run_program(std::vector<std::string> arguments,
                             milliseconds at_most = milliseconds(60'000));

/// Runs `peercache` with these words as its arguments.
finished_program run_cli(std::vector<std::string> words);

/// Number of rounds of a measurement; the best round counts, because other programs use the
/// processor, too.
constexpr int rounds_max = 3;

/// Waits until `condition` is true, for `at_most`. Returns whether it became true.
bool within(milliseconds at_most, const std::function<bool()>& condition);

/// Sends SIGSTOP, and waits until every thread of the process has really stopped.
void freeze_process(cli::child_process& process);

/// Three node processes of one cluster with small pools, and clients of them. Pages are 16 KiB, and
/// their bytes say which page they are (bench/page_content.hpp).
class local_ring : public testing::Test {
protected:
  static constexpr std::uint32_t page_bytes = 16384;
  /// Longest time that publishing may take while some nodes do not answer.
  static constexpr milliseconds publish_patience{20'000};

  void SetUp() override;
  void TearDown() override;

  cli::node_process& node(std::size_t index) { return nodes_[index]; }
  std::string address(std::size_t index) const { return nodes_[index].address(); }
  const std::string& cluster() const { return nodes_.front().launch().cluster; }
  std::unique_ptr<client::cache_client> client_of(std::size_t index,
                                                  milliseconds timeout = milliseconds(2000));
  std::unique_ptr<client::cache_client> client_at(const std::string& host,
                                                  std::uint16_t control_port,
                                                  milliseconds timeout = milliseconds(2000));
  result<void> restart(std::size_t index);
  void freeze(std::size_t index) { freeze_process(nodes_[index].process()); }

  /// Puts the pages [first, first + count) and waits until they are published.
  static void put(client::cache_client& client, std::uint32_t first, std::uint32_t count,
                  std::uint32_t version = 0);
  static page_status put_one(client::cache_client& client, std::uint32_t id, std::uint32_t version);
  static page_key key_of(std::uint32_t id);

  struct read_page {
    client::page_result result;
    bench::page_check check;
    clock::time_point begin;
    clock::duration took{};
  };
  static read_page get(client::cache_client& client, std::uint32_t id,
                       milliseconds deadline = milliseconds(2000));
  /// Returns for how many of the pages [first, first + count) the call `exists` returns the status
  /// `wanted`.
  static std::uint32_t count_told(client::cache_client& client, std::uint32_t first,
                                  std::uint32_t count, page_status wanted);
  static std::uint32_t count_existing(client::cache_client& client, std::uint32_t first,
                                      std::uint32_t count) {
    return count_told(client, first, count, page_status::hit);
  }

  /// Whether a call took at most `bound`, which the system promises. If the call took longer, time
  /// in which this whole process stood still is taken off: other programs use this machine too.
  testing::AssertionResult took_at_most(milliseconds bound, clock::time_point begin,
                                        clock::time_point end = clock::now()) const;
  testing::AssertionResult took_at_most(milliseconds bound, const read_page& read) const {
    return took_at_most(bound, read.begin, read.begin + read.took);
  }
  /// Waits like `within`, but adds the time in which this process stood still to `at_most`.
  bool within_own_time(milliseconds at_most, const std::function<bool()>& condition) const;

  /// Options that all nodes have. Change them before SetUp.
  cli::node_launch prototype_{.cluster = "real-" + std::to_string(::getpid()),
                              .pool_bytes = 32u << 20};
  cli::node_certificates certificate_of_; ///< Makes the certificate of each node; null: no TLS.
                                          ///< Change this before SetUp.
  std::unique_ptr<cli::run_folder> folder_;
  std::vector<cli::node_process> nodes_;

private:
  stress::stall_watch stalls_;
};

} // namespace peercache::real
