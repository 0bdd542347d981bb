// Shows what the hold of a look-up is worth, and what it costs.
//
//   peercache_holds [--answers N] [--where here|elsewhere] [--without-hold] [--price] [--die]
//                   [--node-program PATH]
//
// Two nodes run on this host. In each round a client of the first one asks with `exists` for pages
// in the pool of its own host, or of the other host; then a writer sets ten times as many bytes as
// that pool has; then the client reads the pages for which the answer was yes and held. Prints
// counts as JSON. Exit code 1: pages were lost though they were held (with --without-hold: no more
// than 1 % of the pages were lost). --price compares the rates of look-ups with and without holds.
// --die kills a client that holds a fifth of the pool, and takes the time until its pages may be
// evicted. PEERCACHE_HOLD_ANSWERS in the environment replaces the number of --answers.

#include "bench/page_content.hpp"
#include "cli/node_process.hpp"
#include "client/cache_client.hpp"
#include "common/log.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace peercache {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr std::uint32_t page_bytes = 4096;
constexpr std::uint64_t pool_bytes = 16u << 20;
constexpr std::uint32_t pool_pages = pool_bytes / page_bytes;
/// Size of the pool for --price, so large that a round over a fifth of its pages takes longer than
/// the shortest hold.
constexpr std::uint64_t price_pool_bytes = 512u << 20;
constexpr std::uint32_t filler_pages = 10 * pool_pages;
constexpr std::uint32_t batch_pages = 256;
constexpr client::exists_hold two_seconds{2s};

struct settings {
  std::uint64_t answers = 20'000;
  bool elsewhere = false;
  bool without_hold = false;
  bool price = false;
  bool die = false;
  std::string node_program;
  /// Port of a node; not empty in the child process that plays the dying client of --die.
  std::string holder;
};

struct counts {
  std::uint64_t rounds = 0;
  std::uint64_t asked = 0;
  std::uint64_t found = 0; ///< Number of pages for which `exists` answered yes.
  std::uint64_t held = 0;  ///< Number of pages that `exists` found and held.
  std::uint64_t late = 0;  ///< Number of held pages whose read began after the hold had expired.
  std::uint64_t loaded = 0;
  std::uint64_t lost = 0;
  std::uint64_t wrong = 0; ///< Number of pages read with wrong bytes.
};

page_key key_of(std::uint32_t id) {
  return key_space{}.key_of(std::to_string(id));
}

std::vector<page_key> keys_of(std::uint32_t first, std::uint32_t count) {
  std::vector<page_key> keys;
  for (std::uint32_t i = 0; i < count; ++i)
    keys.push_back(key_of(first + i));
  return keys;
}

std::unique_ptr<client::cache_client> connect(std::uint16_t port, const std::string& cluster) {
  client::client_options options;
  options.node_port = port;
  options.cluster = cluster;
  options.timeout = 10s;
  options.duplicate = duplicate_mode::store;
  auto made = client::cache_client::connect(options);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().message.c_str());
    std::exit(2);
  }
  return std::move(*made);
}

/// Sets the pages [first, first + count).
void set(client::cache_client& writer, std::uint32_t first, std::uint32_t count) {
  static std::vector<std::byte> bytes(std::size_t{batch_pages} * page_bytes);
  for (std::uint32_t done = 0; done < count; done += batch_pages) {
    const auto some = std::min(batch_pages, count - done);
    std::vector<client::const_part> parts;
    std::vector<client::set_page> pages;
    for (std::uint32_t i = 0; i < some; ++i) {
      const auto page = std::span(bytes).subspan(std::size_t{i} * page_bytes, page_bytes);
      bench::fill_page(first + done + i, 0, page);
      parts.push_back({page.data(), page_bytes});
    }
    for (std::uint32_t i = 0; i < some; ++i)
      pages.push_back({key_of(first + done + i), std::span(parts).subspan(i, 1)});
    std::vector<client::page_result> results(some);
    writer.set(pages, results);
  }
}

/// Reads these pages, and adds the outcomes to `to`.
void read(client::cache_client& reader, const std::vector<std::uint32_t>& ids, counts& to) {
  std::vector<std::byte> bytes(ids.size() * page_bytes);
  std::vector<page_part> parts;
  std::vector<client::get_page> pages;
  for (std::size_t i = 0; i < ids.size(); ++i)
    parts.push_back({bytes.data() + i * page_bytes, page_bytes});
  for (std::size_t i = 0; i < ids.size(); ++i)
    pages.push_back({key_of(ids[i]), std::span(parts).subspan(i, 1)});
  std::vector<client::page_result> results(ids.size());
  reader.get(pages, results);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool hit = results[i].status == page_status::hit;
    to.loaded += hit ? 1 : 0;
    to.lost += hit ? 0 : 1;
    if (hit && bench::check_page(ids[i], {parts[i].data, page_bytes}).wrong_bytes != 0)
      ++to.wrong;
  }
}

void make_round(client::cache_client& reader, client::cache_client& writer, const settings& how,
                std::uint32_t& next, counts& to) {
  const std::uint32_t wanted = how.elsewhere ? pool_pages / 10 : pool_pages / 5;
  const auto first = next;
  next += wanted + filler_pages;
  set(writer, first, wanted);
  (void)writer.flush(steady_clock::now() + 10s);
  const auto keys = keys_of(first, wanted);
  std::vector<client::page_result> results(wanted);
  const auto asked_at = steady_clock::now();
  reader.exists(keys, results, {}, how.without_hold ? client::exists_hold{} : two_seconds);
  set(writer, first + wanted, filler_pages);
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < wanted; ++i) {
    to.found += results[i].status == page_status::hit ? 1 : 0;
    if (results[i].held || (how.without_hold && results[i].status == page_status::hit))
      ids.push_back(first + i);
  }
  ++to.rounds;
  to.asked += wanted;
  to.held += ids.size();
  if (steady_clock::now() >= asked_at + two_seconds.duration)
    to.late += ids.size();
  else
    read(reader, ids, to);
}

int compare(client::cache_client& reader, client::cache_client& writer, const settings& how) {
  counts all;
  for (std::uint32_t next = 0; all.held - all.late < how.answers && all.rounds < 100'000;)
    make_round(reader, writer, how, next, all);
  std::printf("{\"hold\":%s,\"where\":\"%s\",\"rounds\":%lu,\"asked\":%lu,\"found\":%lu,"
              "\"held\":%lu,\"late\":%lu,\"loaded\":%lu,\"lost\":%lu,\"wrong\":%lu}\n",
              how.without_hold ? "false" : "true", how.elsewhere ? "elsewhere" : "here", all.rounds,
              all.asked, all.found, all.held, all.late, all.loaded, all.lost, all.wrong);
  const auto read_pages = all.loaded + all.lost;
  const bool good = how.without_hold ? all.lost * 100 > read_pages : all.lost == 0;
  return good && all.wrong == 0 && all.held >= how.answers ? 0 : 1;
}

// -- functions of --price: what a hold costs, in looked-up keys per second

double keys_per_second(client::cache_client& reader, const std::vector<page_key>& keys,
                       std::size_t batch, const client::exists_hold& hold) {
  std::vector<client::page_result> results(batch);
  std::uint64_t asked = 0;
  const auto begin = steady_clock::now();
  while (steady_clock::now() < begin + 50ms)
    for (std::size_t at = 0; at + batch <= keys.size(); at += batch) {
      reader.exists(std::span(keys).subspan(at, batch), results, {}, hold);
      asked += batch;
    }
  return static_cast<double>(asked) /
         std::chrono::duration<double>(steady_clock::now() - begin).count();
}

/// Measures and prints the rates with and without holds, in turns, so that other load of the
/// machine slows both alike.
void tell_price_of(client::cache_client& reader, const std::vector<page_key>& keys,
                   const char* which, const client::exists_hold& hold) {
  for (const std::size_t batch : {32, 128, 512}) {
    std::vector<double> plain, held, ratios;
    for (int i = 0; i < 41; ++i) {
      plain.push_back(keys_per_second(reader, keys, batch, {}));
      held.push_back(keys_per_second(reader, keys, batch, hold));
      ratios.push_back(held.back() / plain.back());
    }
    for (auto* each : {&plain, &held, &ratios})
      std::sort(each->begin(), each->end());
    std::printf("{\"holds\":\"%s\",\"batch\":%zu,\"keys_per_s\":%.0f,\"with_holds\":%.0f,"
                "\"ratio\":%.3f}\n",
                which, batch, plain[20], held[20], ratios[20]);
  }
}

/// Prints the price for pages that are already held, and for pages whose last hold has expired: a
/// second round over many pages comes to each page more than 1 ms after the first.
int tell_price(client::cache_client& reader, client::cache_client& writer) {
  const std::uint32_t pages = price_pool_bytes / page_bytes / 5;
  set(writer, 0, pages);
  (void)writer.flush(steady_clock::now() + 10s);
  tell_price_of(reader, keys_of(0, pool_pages / 8), "again", two_seconds);
  tell_price_of(reader, keys_of(0, pages), "fresh", client::exists_hold{1ms});
  return 0;
}

// -- functions of --die: the end of a client that holds pages

constexpr std::uint32_t dying_pages = pool_pages / 5;

int hold_and_wait(const settings& how, const std::string& cluster) {
  auto client = connect(static_cast<std::uint16_t>(std::stoi(how.holder)), cluster);
  std::vector<client::page_result> results(dying_pages);
  client->exists(keys_of(0, dying_pages), results, {}, two_seconds);
  const auto held =
      std::count_if(results.begin(), results.end(), [](const auto& each) { return each.held; });
  std::printf("held %ld\n", static_cast<long>(held));
  std::fflush(stdout);
  std::this_thread::sleep_for(60s);
  return 2;
}

std::uint64_t count_found(client::cache_client& client) {
  std::vector<client::page_result> results(dying_pages);
  client.exists(keys_of(0, dying_pages), results);
  return static_cast<std::uint64_t>(
      std::count_if(results.begin(), results.end(),
                    [](const auto& each) { return each.status == page_status::hit; }));
}

int watch_a_death(client::cache_client& writer, const char* program, std::uint16_t port,
                  const std::string& cluster) {
  set(writer, 0, dying_pages);
  (void)writer.flush(steady_clock::now() + 10s);
  auto child = cli::child_process::spawn(
      {.arguments = {program, "--holder", std::to_string(port), cluster}});
  if (!child)
    return 2;
  const auto line = child->read_line(10s);
  const auto held_at = steady_clock::now();
  child->kill_now();
  const auto wanted = "held " + std::to_string(dying_pages);
  std::uint32_t next = 1u << 20;
  set(writer, next, pool_pages);
  const auto kept = count_found(writer);
  // Each set of a whole pool of new pages evicts the held pages as soon as nobody holds them.
  while (count_found(writer) != 0 && steady_clock::now() < held_at + 10s)
    set(writer, next += pool_pages, pool_pages);
  const auto took = std::chrono::duration<double>(steady_clock::now() - held_at).count();
  std::printf("{\"line\":\"%s\",\"kept_while_held\":%lu,\"given_back_after_s\":%.2f}\n",
              line ? line->c_str() : "none", kept, took);
  return line && *line == wanted && kept > 0 && count_found(writer) == 0 ? 0 : 1;
}

int run(const settings& how, const char* program) {
  auto folder = cli::run_folder::make("peercache-holds");
  if (!folder)
    return 2;
  cli::local_cluster_options options{.count = 2, .folder = folder->path()};
  options.prototype.program = cli::node_program(how.node_program);
  options.prototype.cluster = "holds-" + std::to_string(::getpid());
  options.prototype.pool_bytes = how.price ? price_pool_bytes : pool_bytes;
  if (how.die) // With LRU, a page that may be evicted is gone once the pool was filled anew.
    options.prototype.flags = {"--pool-eviction", "lru"};
  auto nodes = cli::start_local_cluster(options);
  if (!nodes) {
    std::fprintf(stderr, "%s\n", nodes.error().message.c_str());
    return 2;
  }
  const auto& cluster = options.prototype.cluster;
  int code = 0;
  {
    const auto port = [&](std::size_t i) { return (*nodes)[i].ports().control_port; };
    const auto reader = connect(port(0), cluster);
    const auto writer = connect(port(how.elsewhere ? 1 : 0), cluster);
    if (how.die)
      code = watch_a_death(*writer, program, port(0), cluster);
    else if (how.price)
      code = tell_price(*reader, *writer);
    else
      code = compare(*reader, *writer, how);
  }
  cli::stop_nodes(*nodes, 10s);
  return code;
}

} // namespace
} // namespace peercache

int main(int count, char** words) {
  using namespace peercache;
  init_log("holds", "error", false);
  settings how;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const std::string next = i + 1 < count ? words[i + 1] : "";
    how.without_hold |= word == "--without-hold";
    how.price |= word == "--price";
    how.die |= word == "--die";
    if (word == "--answers")
      how.answers = std::stoull(next);
    if (word == "--node-program")
      how.node_program = next;
    if (word == "--where")
      how.elsewhere = next == "elsewhere";
    if (word == "--holder") {
      how.holder = next;
      return hold_and_wait(how, i + 2 < count ? words[i + 2] : "");
    }
  }
  if (const char* answers = std::getenv("PEERCACHE_HOLD_ANSWERS"))
    how.answers = std::stoull(answers);
  return run(how, words[0]);
}
