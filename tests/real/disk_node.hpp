#pragma once

#include "client/admin_client.hpp"
#include "local_ring.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace peercache::real {

/// One node with a small pool and a disk tier. Its environment may make the disk fail (the faults
/// of common/guards.hpp). Pages have the same content as those of local_ring.
class disk_node {
public:
  static constexpr std::uint32_t page_bytes = 16384;

  struct options {
    std::string store = "bucket";
    std::uint64_t pool_bytes = 8u << 20;
    std::uint64_t disk_bytes = 256u << 20;
    std::string disk_path; ///< Folder of the disk tier; empty: a folder in the run's folder.
    std::vector<std::pair<std::string, std::string>> environment;
    std::vector<std::string> flags;
  };

  explicit disk_node(options wanted);
  ~disk_node();

  /// Starts the node, or starts it again on the same disk. Returns false when the node ended before
  /// it served.
  /// @param environment environment variables of this process of the node only
  bool start(std::vector<std::pair<std::string, std::string>> environment);
  /// Whether the node's process runs.
  bool alive() { return node_ && !node_->process().wait(milliseconds(0)).has_value(); }
  /// Waits until the node's process ends, and kills it after `at_most`. Returns whether it ended by
  /// itself.
  bool bury(milliseconds at_most);
  /// The node's status; nothing when it does not answer.
  std::optional<client::node_status> status();
  /// Makes the node read its whole disk and compare checksums, and waits until that is done.
  void verify_and_wait();
  /// Waits up to a minute until no page is on its way to the disk, or the node is dead. Returns
  /// false when neither happened.
  bool settled();

  client::cache_client& client() { return *client_; }
  page_status put(std::uint32_t id);
  /// Puts the new pages [first, first + count), slowly enough that all come to the disk, and waits
  /// until the node has written them.
  void put_to_disk(std::uint32_t first, std::uint32_t count);
  struct read_page {
    client::page_result result;
    std::uint64_t wrong_bytes = 0;
    clock::duration took{};
  };
  read_page get(std::uint32_t id, milliseconds deadline = milliseconds(2000));
  /// Returns how many of the pages [first, first + count) are hits now; expects the right bytes of
  /// each hit.
  std::uint32_t count_hits(std::uint32_t first, std::uint32_t count);

  std::string address() const { return node_->address(); }
  const std::string& name() const { return node_->launch().name; }
  const std::string& cluster() const { return node_->launch().cluster; }
  /// Folder of the disk tier (`disk.path`).
  const std::string& disk_path() const { return options_.disk_path; }
  /// Returns the log of all processes that the node has had.
  std::string log() const;
  pid_t pid() const { return node_->ports().pid; }

private:
  bool connect();

  options options_;
  std::optional<cli::run_folder> folder_;
  std::unique_ptr<cli::node_process> node_;
  std::unique_ptr<client::cache_client> client_;
  std::unique_ptr<client::admin_client> admin_;
};

} // namespace peercache::real
