#pragma once

#include "tests/real/survival_ring.hpp"

#include "net/socket.hpp"

#include <httplib.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace peercache::real {

/// A ring of nodes in which tests stage faults, and expect what `peercache status` says of them.
class fault_ring : public survival_ring {
protected:
  /// Runs `peercache` with these words for the node at `where`, with JSON as its output.
  finished_program ask_at(const std::string& where, std::vector<std::string> words) {
    for (const auto& word : {std::string("-o"), std::string("json"), std::string("--cluster"),
                             asked_cluster_, std::string("--node"), where})
      words.push_back(word);
    return run_cli(std::move(words));
  }

  /// Whether the `status` command for the node at `where` fails, and has a fault of this id whose
  /// text has all these words.
  bool says(const std::string& where, const std::string& id,
            const std::vector<std::string>& words) {
    last_ = ask_at(where, {"status"});
    const auto said = last_.json();
    if (last_.exit_code != 3 || !said.contains("faults"))
      return false;
    for (const auto& fault : said["faults"]) {
      const auto text = fault["text"].get<std::string>();
      bool has_all = fault["id"] == id;
      for (const auto& word : words)
        has_all = has_all && text.find(word) != std::string::npos;
      if (has_all)
        return true;
    }
    return false;
  }

  /// Expects that the status of the node at `where` tells this fault within 15 s, and still tells
  /// it later. Where the environment has PEERCACHE_TEST_FAULTS_LAST, the status is asked again for
  /// a whole minute.
  void expect_fault(const std::string& where, const std::string& id,
                    const std::vector<std::string>& words) {
    EXPECT_TRUE(within(milliseconds(15'000), [&] { return says(where, id, words); }))
        << "no " << id << " in " << last_.output;
    const bool lasts = std::getenv("PEERCACHE_TEST_FAULTS_LAST") != nullptr;
    const milliseconds pause(lasts ? 1000 : 100);
    for (const auto until = clock::now() + milliseconds(lasts ? 60'000 : 1500);
         clock::now() < until; std::this_thread::sleep_for(pause))
      ASSERT_TRUE(says(where, id, words)) << id << " vanished: " << last_.output;
  }

  /// Expects that a node's metrics count a fault of this id, on which an alert fires
  /// (config/monitoring/alerts.yaml). The node asks all nodes for their faults each second only
  /// while somebody reads its /api/cluster.
  void expect_counted(const std::string& id) {
    const auto series = "\npeercache_cluster_faults{id=\"" + id + "\"} ";
    EXPECT_TRUE(within(milliseconds(25'000),
                       [&] {
                         for (std::size_t i = 0; i < node_count(); ++i) {
                           const auto host = address(i).substr(0, address(i).rfind(':'));
                           httplib::Client http{host, nodes_[i].ports().http_port};
                           http.set_connection_timeout(milliseconds(500));
                           http.set_read_timeout(milliseconds(2000));
                           if (!http.Get("/api/cluster"))
                             continue;
                           const auto said = http.Get("/metrics");
                           const auto at = said ? said->body.find(series) : std::string::npos;
                           if (at != std::string::npos && said->body[at + series.size()] != '0')
                             return true;
                         }
                         return false;
                       }))
        << "no node counts " << id;
  }

  /// Returns a port of 127.0.0.1 at which nobody listens.
  static std::uint16_t free_port() {
    const auto taken = net::listen_on("127.0.0.1", 0, 1);
    return taken ? net::local_port(*taken) : std::uint16_t{0};
  }
  static std::string at_port(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

  /// Starts one more node with these seeds; does not wait, because the seeds may refuse the node.
  /// Returns its address.
  std::string spawn_outsider(std::vector<std::string> seeds, const std::string& name = "outsider",
                             const std::string& host = "127.0.0.1",
                             std::uint32_t speaks_newer = 0) {
    auto launch = launch_of(node_count());
    launch.host = host;
    launch.name = name;
    launch.folder = folder_->path() / "outsider";
    launch.seeds = std::move(seeds);
    launch.control_port = free_port();
    if (!asked_cluster_.empty())
      launch.cluster = asked_cluster_;
    launch.environment = {resolver_of_tests};
    if (speaks_newer > 0) {
      launch.program = PEERCACHE_NODE_SWITCHABLE;
      launch.environment.emplace_back("PEERCACHE_TEST_SPEAKS_NEWER", std::to_string(speaks_newer));
    }
    spawn_node(launch);
    return host + ":" + std::to_string(launch.control_port);
  }

  /// Starts the ring's nodes, which later calls of `peercache` ask.
  void start(plan wanted) {
    wanted.expiry = milliseconds(2000); // Long, because other tests run beside this one.
    start_ring(wanted);
    if (!HasFatalFailure() && !IsSkipped())
      asked_cluster_ = cluster();
  }
  std::size_t node_count() const { return nodes_.size(); }

  /// An environment variable by which the C library's resolver gives up after a second without an
  /// answer.
  static inline const std::pair<std::string, std::string> resolver_of_tests{"RES_OPTIONS",
                                                                            "timeout:1 attempts:1"};

  std::string asked_cluster_;
  finished_program last_;
};

} // namespace peercache::real
