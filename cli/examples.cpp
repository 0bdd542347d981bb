#include "cli/examples.hpp"

#include <array>

namespace peercache::cli {

namespace {

constexpr std::array all{
    example{"demo", "", "three nodes on this machine, and every byte compared"},
    example{"demo", "--keep", "the same, and the nodes stay until Ctrl-C"},
    example{"demo", "--disk-size 1GiB --restart", "kill them with -9, and see what the disks hold"},
    example{"ping", "-c 3", "does the node answer, and how fast"},
    example{"status", "", "is the cluster well, and if not, why"},
    example{"status", "--node 10.0.0.11,10.0.0.12 -o json", "the first node that answers, as JSON"},
    example{"nodes", "", "all nodes: state, role, pool"},
    example{"top", "", "what all nodes do now"},
    example{"top", "--once -o json", "the same, once, for a program"},
    example{"events", "", "who joined, who left, what went wrong"},
    example{"sessions", "", "which clients are there, and what they did"},
    example{"sessions", "node-2 -o json", "those of one node, as JSON"},
    example{"why", "", "why pages were missed, and what to do"},
    example{"why", "-o json", "the same, for a program"},
    example{"slow", "", "the slowest calls of late, and what they waited for"},
    example{"slow", "node-2 --top 5 -o json", "five of one node's clients, as JSON"},
    example{"hotkeys", "", "which pages are read most"},
    example{"bigkeys", "", "which spaces fill the pools, and the largest pages"},
    example{"log-level", "", "the log levels of all nodes"},
    example{"log-level", "debug node-2", "more lines in one node's log, until it is started again"},
    example{"ring", "", "which share of the keys each node owns"},
    example{"shard ls", "", "the directory shards of all nodes"},
    example{"shard show", "node-2", "one shard: whose pages it knows"},
    example{"key locate", "greeting", "where a page is"},
    example{"key explain", "greeting", "why a get of it hits or misses"},
    example{"key explain", "k --namespace llama,v1", "a key of a space with two fields"},
    example{"put", "greeting --value hello", "store a page"},
    example{"get", "greeting -", "its bytes, to stdout"},
    example{"exists", "greeting other", "which of the keys are there"},
    example{"rm", "greeting", "remove a page"},
    example{"clear", "llama --dry-run", "what a clear of the space would do"},
    example{"clear", "llama --yes", "withdraw every page of the space, without a question"},
    example{"disk status", "node-2", "what the disk tier of a node holds and did"},
    example{"disk verify", "node-2", "read all of it and compare checksums"},
    example{"disk evict", "node-2 --free 10GiB", "make room, after a question"},
    example{"disk evict", "node-2 --all --yes", "drop all pages on its disk, without a question"},
    example{"drain", "node-2", "before a node is stopped for long"},
    example{"undrain", "node-2", "have it take part again"},
    example{"forget", "node-2", "a node that is gone for good"},
    example{"handoff", "", "prompts on their way from prefill to decode"},
    example{"ca init", "ca --cluster prod", "the CA of a cluster with TLS"},
    example{"ca issue node", "host7 --out /etc/peercache", "a node's certificate"},
    example{"ca issue client", "engine", "an engine's certificate"},
    example{"ca issue operator", "anna", "the certificate of one who operates nodes of any host"},
    example{"bench", "--only exists", "how fast calls are on this machine"},
    example{"bench rdma", "", "READs beside those of perftest"},
    example{"bench disk", "", "the disk tier beside fio"},
    example{"bench hicache", "--ranks 2", "SGLang's storage backend beside the C++ client"},
    example{"bench vllm", "", "vLLM's secondary tier beside the C++ client"},
    example{"bench lmcache", "", "LMCache's connector beside the C++ client"},
    example{"bench handoff", "", "prompts from prefill to decode beside a raw socket"},
    example{"doctor", "--pool-size 64GiB", "what this machine lacks for such a node"},
    example{"bundle", "", "one file with all of that, for a report"},
    example{"bundle", "- --config /etc/peercache/peercache.toml", "the same, to stdout"},
    example{"config show", "", "every option in force, and where it was set"},
    example{"config check", "/etc/peercache/peercache.toml", "is the file right"},
    example{"config init", "peercache.toml", "write a file with all options and their defaults"},
    example{"completion", "bash", "source <(peercache completion bash) has the shell complete"},
    example{"cheat", "", "this list"},
    example{"help", "key explain", "the help of one command"},
    example{"version", "", "the version of this program"},
};

} // namespace

std::span<const example> examples() {
  return all;
}

} // namespace peercache::cli
