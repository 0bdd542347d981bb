#include "python/native_client.hpp"

#include "python/binding/convert.hpp"
#include "python/gate_calls.hpp"
#include "python/gil.hpp"

#include <algorithm>
#include <cmath>

namespace peercache::python {
namespace {

using std::chrono::nanoseconds;

constexpr auto rest_at_end = std::chrono::milliseconds(5);

std::uint64_t ns_between(std::chrono::steady_clock::time_point begin,
                         std::chrono::steady_clock::time_point end) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<nanoseconds>(end - begin).count());
}

/// The caller's memory that Python named by its address as a number.
std::byte* at(std::uint64_t address) noexcept {
  return reinterpret_cast<std::byte*>(address); // NOLINT(performance-no-int-to-ptr)
}

/// The pages of one call and their parts; `Part` is const_part for a set, page_part for a get.
template <class Part, class Page>
struct page_list {
  std::vector<Part> parts;
  std::vector<Page> pages;

  page_list(const std::vector<page_key>& keys, const page_memory& memory) {
    parts.reserve(memory.addresses.size());
    for (std::size_t i = 0; i < memory.addresses.size(); ++i)
      parts.push_back({at(memory.addresses[i]), static_cast<std::uint32_t>(memory.sizes[i])});
    pages.reserve(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i)
      pages.push_back({keys[i], std::span<const Part>{parts}.subspan(i * memory.parts_per_page,
                                                                     memory.parts_per_page)});
  }
};

/// Returns the tiers of all locations as bits: bit 0 memory, bit 1 disk; bits 2 and 3 the same for
/// locations at the node `home`; bit 7 alone: the directory has not answered.
char tier_mask(const client::key_locations& found, const std::optional<incarnation>& home) {
  if (found.status != page_status::hit && found.status != page_status::not_found)
    return static_cast<char>(0x80);
  int mask = 0;
  for (const auto& location : found.locations) {
    const int tier = location.where == directory::tier::memory ? 1 : 2;
    mask |= tier | (location.holder == home ? tier << 2 : 0);
  }
  return static_cast<char>(mask);
}

/// The name of a space in a client's log.
page_key id_of(const key_space& space) {
  return space.key_of({});
}

void note_call(client::cache_client& cache, link::call_kind kind, const key_strings& keys,
               const std::vector<key_space>& in, const std::vector<page_key>& digests,
               const std::vector<client::page_result>& results) {
  std::vector<page_key> spaces;
  spaces.reserve(in.size());
  for (const auto& space : in)
    spaces.push_back(id_of(space));
  cache.calls().note({kind, spaces, digests, results, [&](std::size_t key) { return keys[key]; }},
                     std::chrono::steady_clock::now());
}

client::exists_hold hold_of(std::optional<double> seconds, std::size_t group_pages) {
  if (seconds && !(*seconds >= 0))
    throw py::value_error("a hold is a number of seconds that is not negative");
  constexpr std::chrono::duration<double> longest{client::exists_hold::duration_max};
  const std::chrono::duration<double> wanted{std::min(seconds.value_or(0), longest.count())};
  return {std::chrono::ceil<std::chrono::milliseconds>(wanted),
          static_cast<std::uint32_t>(std::max<std::size_t>(group_pages, 1))};
}

py::dict named_counts(const std::uint64_t (&counts)[page_status_count]) {
  py::dict named;
  for (std::size_t i = 0; i < page_status_count; ++i)
    if (counts[i] != 0)
      named.set(to_string(static_cast<page_status>(i)), counts[i]);
  return named;
}

py::dict named_origins(const std::uint64_t (&counts)[page_origin_count]) {
  py::dict named;
  for (std::size_t i = 1; i < page_origin_count; ++i)
    named.set(page_origin_words[i], counts[i]);
  return named;
}

} // namespace

class native_client::timed_call {
public:
  explicit timed_call(native_client& of) : of_(of), begin_(clock::now()) {}
  ~timed_call() {
    of_.calls_.fetch_add(1, std::memory_order_relaxed);
    of_.call_ns_.fetch_add(ns_between(begin_, clock::now()), std::memory_order_relaxed);
  }

  /// Gives the GIL up for as long as this lives, and counts for how long.
  class released {
  public:
    explicit released(timed_call& in) : in_(in), begin_(clock::now()) { release_.emplace(); }
    ~released() {
      // The GIL is taken back before the clock is read: time spent waiting for it is not time of
      // holding it.
      release_.reset();
      in_.of_.released_ns_.fetch_add(ns_between(begin_, clock::now()), std::memory_order_relaxed);
    }

  private:
    timed_call& in_;
    clock::time_point begin_;
    std::optional<outside_call> release_;
  };

private:
  native_client& of_;
  clock::time_point begin_;
};

native_client::native_client(opened_cache opened)
    : gate_(std::move(opened.client)), node_address_(std::move(opened.node_address)),
      default_timeout_(opened.options.timeout) {}

native_client::~native_client() {
  close();
}

void native_client::close() {
  close_gate(gate_);
}

bool native_client::may_begin() const {
  if (gate_.is_open())
    return true;
  if (end_announced())
    rest_without_gil(rest_at_end);
  return false;
}

template <class Result, class Work>
Result native_client::borrow(Result otherwise, Work&& work) {
  if (!may_begin())
    return otherwise;
  return python::borrow(gate_, std::move(otherwise), std::forward<Work>(work));
}

client::deadline native_client::until(timeout within) const {
  if (!within)
    return clock::now() + default_timeout_;
  constexpr double day = 86'400;
  if (std::isnan(*within))
    throw py::value_error("a timeout is a number of seconds");
  const auto seconds = std::clamp(*within, 0.0, day);
  return clock::now() +
         std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>{seconds});
}

double native_client::default_timeout_seconds() const noexcept {
  return std::chrono::duration<double>{default_timeout_}.count();
}

template <class Work>
page_results native_client::run(timed_call& timing, std::optional<link::call_kind> kind,
                                const key_strings& keys, const spaces& in, client::deadline limit,
                                Work&& work) {
  const auto pages = keys.asked * in.size();
  const auto all_closed = [pages] {
    return std::vector(pages, client::page_result{page_status::closed, page_origin::none, 0});
  };
  if (!may_begin())
    return page_results{all_closed()};
  auto results = [&] {
    timed_call::released outside{timing};
    auto each = all_closed();
    if (cache_gate::loan cache{gate_}; cache) {
      const auto digests = keys_of(keys, in, limit);
      const auto named = static_cast<std::ptrdiff_t>(digests.size());
      work(*cache, digests, std::span{each}.first(digests.size()));
      std::fill(each.begin() + named, each.end(),
                client::page_result{page_status::timed_out, page_origin::none, 0});
      if (kind)
        note_call(*cache, *kind, keys, in, digests, each);
    }
    return each;
  }();
  raise_from_handlers();
  return page_results{std::move(results)};
}

template <class Part, class Page, class Move>
page_results native_client::move_pages(link::call_kind kind, const spaces& in, py::handle keys,
                                       py::handle addresses, py::handle sizes, timeout within,
                                       Move&& move) {
  timed_call timing{*this};
  const auto limit = until(within);
  auto strings = take_keys(keys, limit);
  const auto memory = take_memory(addresses, sizes, strings.asked * in.size());
  return run(timing, kind, strings, in, limit, [&](auto& cache, const auto& digests, auto results) {
    const page_list<Part, Page> list{digests, memory};
    move(cache, list.pages, results, limit);
  });
}

page_results native_client::set(const spaces& in, py::handle keys, py::handle addresses,
                                py::handle sizes, timeout within) {
  return move_pages<client::const_part, client::set_page>(
      link::call_kind::set, in, keys, addresses, sizes, within,
      [](auto& cache, const auto& pages, auto results, auto limit) {
        cache.set(pages, results, limit);
      });
}

page_results native_client::get(const spaces& in, py::handle keys, py::handle addresses,
                                py::handle sizes, timeout within) {
  return move_pages<page_part, client::get_page>(
      link::call_kind::get, in, keys, addresses, sizes, within,
      [](auto& cache, const auto& pages, auto results, auto limit) {
        cache.get(pages, results, limit);
      });
}

page_results native_client::exists(const spaces& in, py::handle keys, timeout within,
                                   std::optional<double> hold, bool chain) {
  timed_call timing{*this};
  const auto wanted = hold_of(hold, in.size());
  const auto limit = until(within);
  auto strings = take_keys(keys, limit);
  return run(timing, link::call_kind::exists, strings, in, limit,
             [&](auto& cache, const auto& digests, auto results) {
               if (chain)
                 cache.exists_chain(digests, results, limit, wanted);
               else
                 cache.exists(digests, results, limit, wanted);
             });
}

page_results native_client::remove(const spaces& in, py::handle keys, timeout within) {
  timed_call timing{*this};
  const auto limit = until(within);
  auto strings = take_keys(keys, limit);
  return run(timing, std::nullopt, strings, in, limit,
             [&](auto& cache, const auto& digests, auto results) {
               cache.remove(digests, results, limit);
             });
}

std::pair<bool, std::string> native_client::clear(const std::string& space, timeout within) {
  using answer = std::pair<bool, std::string>;
  const auto limit = until(within);
  return borrow(answer{false, "the client is closed"}, [&](auto& cache) {
    auto outcome = cache.clear(space, limit);
    return answer{outcome.certain, std::move(outcome.why_not)};
  });
}

void native_client::prefetch(const spaces& in, py::handle keys) {
  constexpr auto limit = client::deadline::max();
  auto strings = take_keys(keys, limit);
  borrow(false, [&](auto& cache) {
    cache.prefetch(keys_of(strings, in, limit));
    return true;
  });
}

std::optional<py::bytes> native_client::tiers(const spaces& in, py::handle keys, timeout within) {
  const auto limit = until(within);
  auto strings = take_keys(keys, limit);
  using masks = std::optional<std::string>;
  const auto found = borrow(masks{}, [&](auto& cache) -> masks {
    const auto digests = keys_of(strings, in, limit);
    if (digests.size() < strings.asked * in.size())
      return std::nullopt;
    const auto places = cache.locate_each(digests, limit);
    if (!places)
      return std::nullopt;
    // Without a session the last known node of this host counts: if it has ended, no location names
    // it.
    std::lock_guard guard{home_lock_};
    if (const auto now = cache.home_node())
      last_home_ = now;
    std::string each;
    for (const auto& key : *places)
      each.push_back(tier_mask(key, last_home_));
    return each;
  });
  return found ? std::optional{py::bytes{*found}} : std::nullopt;
}

std::tuple<bool, std::uint64_t, std::uint64_t> native_client::flush(timeout within) {
  using answer = std::tuple<bool, std::uint64_t, std::uint64_t>;
  const auto limit = until(within);
  return borrow(answer{false, 0, 0}, [&](auto& cache) {
    const auto outcome = cache.flush(limit);
    return outcome ? answer{true, outcome->failed, outcome->duplicates} : answer{false, 0, 0};
  });
}

std::optional<std::string> native_client::register_memory(std::uint64_t address,
                                                          std::uint64_t bytes) {
  using fault = std::optional<std::string>;
  return borrow(fault{"the client is closed"}, [&](auto& cache) {
    const auto done = cache.register_buffer({at(address), static_cast<std::size_t>(bytes)});
    return done ? fault{} : fault{to_string(done.error())};
  });
}

void native_client::unregister_memory(std::uint64_t address) {
  borrow(false, [&](auto& cache) {
    cache.unregister_buffer(at(address));
    return true;
  });
}

void native_client::describe(const key_space& space, const std::string& door, py::handle fields,
                             const std::map<std::string, std::string>& facts) {
  const auto texts = take_keys(fields, client::deadline::max());
  client::call_log::description what{door, {}, facts};
  for (std::size_t i = 0; i < texts.size(); ++i)
    what.fields.emplace_back(texts[i]);
  if (const cache_gate::loan cache{gate_}; cache)
    cache->calls().describe(id_of(space), std::move(what));
}

void native_client::note_unasked(const key_space& space, const std::string& reason,
                                 std::uint64_t pages) {
  if (const cache_gate::loan cache{gate_}; cache)
    cache->calls().note_unasked(id_of(space), reason, pages, std::chrono::steady_clock::now());
}

py::dict native_client::stats() {
  // No loan while Python objects are made: that may run a finalizer which closes this client.
  std::optional<client::client_stats> found;
  if (const cache_gate::loan cache{gate_}; cache)
    found = cache->stats();
  py::dict all;
  if (!found)
    return all;
  const auto& totals = *found;
  all.set("directory_messages", totals.directory_messages);
  all.set("location_cache_hits", totals.location_cache_hits);
  all.set("get_pages", named_counts(totals.get_pages));
  all.set("get_hits", named_origins(totals.get_hits));
  all.set("get_bytes", named_origins(totals.get_bytes));
  all.set("set_pages", named_counts(totals.set_pages));
  all.set("set_bytes", totals.set_bytes);
  all.set("exists_pages", named_counts(totals.exists_pages));
  py::dict holds;
  for (std::size_t i = 0; i < client::hold_fate_count; ++i)
    holds.set(client::hold_fate_words[i], totals.holds[i]);
  all.set("holds", holds);
  all.set("retries", totals.retries);
  all.set("view_refreshes", totals.view_refreshes);
  return all;
}

py::list native_client::members() {
  std::vector<discovery::member> found;
  if (const cache_gate::loan cache{gate_}; cache)
    found = cache->view().members;
  py::list list;
  for (const auto& member : found)
    list.append(py::to_python(std::tuple{member.name, member.host, member.control_port}));
  return list;
}

std::string native_client::data_plane() {
  const cache_gate::loan cache{gate_};
  return cache ? cache->data_plane() : "closed";
}

std::tuple<std::uint64_t, double, double> native_client::call_times() const {
  return {calls_.load(), static_cast<double>(call_ns_.load()) / 1e9,
          static_cast<double>(released_ns_.load()) / 1e9};
}

} // namespace peercache::python
