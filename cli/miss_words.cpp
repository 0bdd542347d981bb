#include "cli/miss_words.hpp"

#include <fmt/format.h>

namespace peercache::cli {
namespace {

std::string seconds_text(std::uint64_t ms) {
  return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
}

std::string fact(const std::map<std::string, std::string>& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? std::string{} : found->second;
}

} // namespace

worded_cause words_of_status(page_status status) {
  switch (status) {
  case page_status::unreachable:
  case page_status::breaker_open:
    return {"node_unreachable", "no node that knows or has the page could be reached",
            "see peercache status and peercache doctor: a node is down, or a port is closed"};
  case page_status::timed_out:
    return {"timed_out", "the page's node, or the directory, did not answer by the deadline",
            "see peercache status for a node that hangs; else raise client.timeout"};
  case page_status::holder_gone:
    return {"node_gone", "the node that had the page has left or was started again",
            "nothing: its records go by themselves; directory.replicas and pool.mirror keep hot "
            "pages on several nodes"};
  case page_status::stale:
    return {"evicted", "the page was evicted while it was read",
            "make the pool larger (pool.size), or add a disk tier (disk.path)"};
  case page_status::bad_size:
    return {"page_length", "the stored page has another length than the engine's buffer",
            "engines that share a namespace need chunks of one size and one dtype: give others a "
            "namespace of their own"};
  case page_status::corrupt:
  case page_status::wrong_key:
    return {"corrupt", "the bytes that came are not those that were stored",
            "check memory and network of the page's node: docs/troubleshooting.md, \"Bytes are "
            "wrong\""};
  case page_status::refused:
    return {"limit", "a limit in bytes or in number was reached, or a node ended or refused memory",
            "ask for fewer pages at once; see peercache status"};
  default:
    return {"closed", "the client was closing", "nothing"};
  }
}

worded_cause words_of_refusal(page_status status) {
  switch (status) {
  case page_status::no_space:
    return {"set_refused", "the page was not stored: the pool could free no memory for it",
            "make the pool larger (pool.size): all of it is being filled or read"};
  case page_status::bad_size:
    return {"set_refused", "the page was not stored: it is larger than the cache takes, or empty",
            "use a smaller page size"};
  case page_status::unreachable:
    return {"set_refused", "the page was not stored: the engine had no node on its host",
            "see peercache status: start the node of the engine's host before the engine"};
  case page_status::timed_out:
    return {"set_refused", "the page was not stored: its set was not done by the deadline",
            "raise client.timeout"};
  default:
    return {"set_refused", fmt::format("the page was not stored: {}", to_string(status)),
            "see peercache status and the log of the node: it drains, or a limit was reached"};
  }
}

worded_cause words_of_loss(link::page_loss how, std::uint64_t ms) {
  const auto before = seconds_text(ms);
  switch (how) {
  case link::page_loss::evicted:
    return {"evicted", fmt::format("the page was evicted {} before it was asked for", before),
            "make the pool larger (pool.size), or add a disk tier (disk.path)"};
  case link::page_loss::disk_evicted:
    return {"evicted",
            fmt::format("the page was evicted from disk {} before it was asked for", before),
            "make the disk tier larger (disk.size)"};
  case link::page_loss::removed:
    return {"removed", fmt::format("the page was removed {} before it was asked for", before),
            "find who removes pages: an engine's delete, or peercache rm"};
  case link::page_loss::cleared:
    return {"cleared",
            fmt::format("the space was cleared {} before the page was asked for", before),
            "find who clears the space: an engine's flush of its cache, or peercache clear"};
  case link::page_loss::replaced:
    return {"replaced",
            fmt::format("a page of another length took its key {} before it was asked for", before),
            "find which engines share the namespace with chunks of different sizes"};
  case link::page_loss::holder_gone:
    return {
        "node_gone",
        fmt::format("the process that had the page was gone {} before it was asked for", before),
        "see peercache events for why; with a disk tier (disk.path) pages outlive their node"};
  }
  return {"evicted", "the page left its node", "make the pool larger (pool.size)"};
}

worded_cause words_of_unstored(const std::map<std::string, std::string>& facts,
                               bool stores_others) {
  if (const auto policy = fact(facts, "write_policy"); !policy.empty() && policy != "write_through")
    return {"write_policy",
            fmt::format("nobody has stored the page, and the engine's write policy is {}", policy),
            "start the engine with --hicache-write-policy write_through"};
  if (stores_others)
    return {"never_stored", "nobody has stored the page: its prompt is new to the cluster",
            "nothing: new prompts miss; for prompts that are not new see peercache key explain"};
  return {"nobody_stores", "no client has stored any page in this key space",
          "check that an engine with this key space runs and stores: peercache sessions"};
}

worded_cause words_of_unknown() {
  return {"unknown", "the directory did not answer: whether the page is stored is not known",
          "see peercache status for nodes that do not answer, then ask again"};
}

worded_cause words_of_unasked(const std::string& reason) {
  const auto colon = reason.find(": ");
  const auto name = reason.substr(0, colon);
  const auto rest = colon == std::string::npos ? std::string{} : reason.substr(colon + 2);
  if (name == "lookup_late")
    return {"threshold", "the look-up was not answered by the engine's deadline for a verdict",
            "raise lookup_timeout_s in the entry of secondary_tiers"};
  if (name == "pool_not_kept")
    return {"interface_v1", "the engine's pool is not kept: " + rest,
            "do what the reason says (\"interface_v1\": 1, or a smaller --page-size)"};
  return {name, rest, "see the log of the engine"};
}

worded_cause words_of_never_asked(const std::string& door) {
  if (door != "sglang")
    return {"never_asked", "pages are stored, and no engine asks for any",
            "check the engines' settings: they only store, or their prompts do not repeat"};
  return {
      "never_asked",
      "pages are stored, and no engine asks for any: SGLang looks up no prompt with fewer tokens "
      "beyond its own cache than prefetch_threshold (256)",
      "set \"prefetch_threshold\" in the extra config to what your prompts share"};
}

} // namespace peercache::cli
