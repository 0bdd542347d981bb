#include "stress_worker.hpp"

#include <algorithm>
#include <thread>

namespace peercache::stress {

namespace {

constexpr std::chrono::milliseconds client_timeout{1000};

} // namespace

page_key key_of(std::uint32_t key) {
  static const key_space space;
  return space.key_of("stress-" + std::to_string(key));
}

stress_worker::stress_worker(const stress_plan& plan, stress_ledger& ledger, std::uint32_t number,
                             worker_home home)
    : plan_(plan), ledger_(ledger), home_(std::move(home)), random_(plan.seed * 1000 + number),
      number_(number), memory_(batch_pages_max * page_stride_) {}

client::cache_client* stress_worker::client() {
  constexpr std::uint32_t lost_calls_max = 20;
  if (client_ && lost_calls_ < lost_calls_max)
    return client_.get();
  client_.reset();
  lost_calls_ = 0;
  client::client_options options;
  options.node_host = home_.host;
  options.node_port = home_.port;
  options.cluster = home_.cluster;
  options.tls = home_.tls;
  options.timeout = client_timeout;
  options.verify_own_host = plan_.verify;
  options.verify_tcp = plan_.verify;
  options.duplicate = draw() % 2 == 0 ? duplicate_mode::store : duplicate_mode::skip;
  auto connected = client::cache_client::connect(options);
  if (!connected)
    return nullptr;
  ledger_.reconnects += 1;
  client_ = std::move(*connected);
  name_ = "worker" + std::to_string(number_) + "." + std::to_string(++clients_);
  last_view_ = {};
  return client_.get();
}

void stress_worker::note(std::span<const client::page_result> results) {
  bool lost = std::all_of(results.begin(), results.end(), [](const auto& page) {
    return page.status == page_status::closed || page.status == page_status::unreachable ||
           page.status == page_status::timed_out;
  });
  lost_calls_ = lost ? lost_calls_ + 1 : 0;
  bool nothing = std::none_of(results.begin(), results.end(),
                              [](const auto& page) { return is_success(page.status); });
  bool no_room = nothing && results.front().status == page_status::no_space;
  // Pauses, because a call without a node, or with a full pool, fails at once, and calls at full
  // speed would take processor time from others.
  if (lost || no_room)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

std::optional<client::deadline> stress_worker::draw_deadline() {
  if (plan_.deadline_most.count() == 0)
    return std::nullopt;
  auto spread = static_cast<std::uint64_t>((plan_.deadline_most - plan_.deadline_least).count());
  auto given = plan_.deadline_least + std::chrono::milliseconds(draw() % (spread + 1));
  return std::chrono::steady_clock::now() + given;
}

template <class Call>
tests::history::call_number stress_worker::timed(std::string_view what, Call call) {
  const auto before = thread_times::now();
  auto until = draw_deadline();
  auto begin = std::chrono::steady_clock::now();
  call(until);
  return ledger_.note_call(what, name_, begin, until.value_or(begin + client_timeout), before);
}

/// Counts a regression when this client tells an older view than before. A view without any member
/// of the last view is not a regression: this host's node was cut off from all others and has begun
/// a cluster of its own.
void stress_worker::watch_view(const client::cache_client& client) {
  auto view = client.view();
  const bool goes_on =
      std::any_of(view.members.begin(), view.members.end(),
                  [this](const auto& member) { return last_view_.find(member.inc) != nullptr; });
  if (goes_on && view.stamp() < last_view_.stamp())
    ledger_.view_regressions += 1;
  if (ledger_.record != nullptr && view.stamp() != last_view_.stamp())
    ledger_.record->view(std::chrono::steady_clock::now(), name_, view);
  last_view_ = std::move(view);
}

std::uint32_t stress_worker::draw_recent() {
  bool own = !known_.empty() && draw() % 2 == 0;
  return own ? known_[draw() % known_.size()] : ledger_.recent(draw());
}

void stress_worker::draw_keys(std::uint32_t recent_percent) {
  std::uint64_t count =
      plan_.pages_per_call != 0 ? plan_.pages_per_call : 1 + draw() % batch_pages_max;
  drawn_.clear();
  while (drawn_.size() < count) {
    auto key = draw() % 100 < recent_percent ? draw_recent()
                                             : static_cast<std::uint32_t>(draw() % plan_.keys);
    if (std::find(drawn_.begin(), drawn_.end(), key) == drawn_.end())
      drawn_.push_back(key);
    else
      --count;
  }
  if (drawn_.empty())
    drawn_.push_back(static_cast<std::uint32_t>(draw() % plan_.keys));
  keys_.clear();
  sizes_.clear();
  for (auto key : drawn_) {
    keys_.push_back(key_of(key));
    sizes_.push_back(page_bytes_of(plan_, key));
  }
  results_.assign(drawn_.size(), {});
}

void stress_worker::put_some(client::cache_client& client) {
  draw_keys(plan_.rewrites_percent);
  std::vector<client::const_part> parts;
  std::vector<client::set_page> pages;
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    auto version = std::min(ledger_.next_version(drawn_[i]), bench::page_version_max);
    bench::fill_page(drawn_[i], version, page(i));
    parts.push_back({page(i).data(), sizes_[i]});
  }
  for (std::size_t i = 0; i < drawn_.size(); ++i)
    pages.push_back({keys_[i], {&parts[i], 1}});
  record_puts();
  timed("set", [&](auto until) { client.set(pages, results_, until); });
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    ledger_.put[static_cast<std::size_t>(results_[i].status)] += 1;
    if (results_[i].status == page_status::stored)
      ledger_.remember_put(drawn_[i]);
  }
  ledger_.ops += drawn_.size();
  note(results_);
}

void stress_worker::record_puts() {
  if (ledger_.record == nullptr)
    return;
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < drawn_.size(); ++i)
    ledger_.record->put(now, name_, keys_[i], page(i));
}

void stress_worker::remove_some(client::cache_client& client) {
  draw_keys(90);
  timed("remove", [&](auto until) { client.remove(keys_, results_, until); });
  ledger_.removes += drawn_.size();
  ledger_.ops += drawn_.size();
}

void stress_worker::check(std::uint32_t key, std::size_t index, const client::page_result& result) {
  ledger_.got[static_cast<std::size_t>(result.status)] += 1;
  if (result.status != page_status::hit)
    return;
  ledger_.hits += 1;
  if (known_.size() < known_keys)
    known_.push_back(key);
  else if (draw() % 4 == 0)
    known_[draw() % known_keys] =
        key; // The key goes to a random place, so that some older keys stay.
  ledger_.hits_by_origin[static_cast<std::size_t>(result.origin)] += 1;
  auto found = bench::check_page(key, page(index));
  // The right bytes of a version that nobody has put yet are wrong, too.
  if (found.wrong_bytes == 0 && found.version > ledger_.newest_version(key))
    found.wrong_bytes = sizes_[index];
  if (found.wrong_bytes != 0)
    ledger_.report_wrong(key, found, found.wrong_bytes, result.origin);
}

void stress_worker::get_some(client::cache_client& client) {
  draw_keys(90);
  std::vector<page_part> parts;
  std::vector<client::get_page> pages;
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    // Overwrites the memory, because bytes that an earlier get has left there would look like a
    // hit's.
    std::fill_n(page(i).data(), sizes_[i], std::byte{0xa5});
    parts.push_back({page(i).data(), sizes_[i]});
  }
  for (std::size_t i = 0; i < drawn_.size(); ++i)
    pages.push_back({keys_[i], {&parts[i], 1}});
  const auto call = timed("get", [&](auto until) { client.get(pages, results_, until); });
  for (std::size_t i = 0; i < drawn_.size(); ++i) {
    check(drawn_[i], i, results_[i]);
    if (ledger_.record != nullptr && results_[i].status == page_status::hit)
      ledger_.record->hit(call, keys_[i], page(i), "-");
  }
  ledger_.gets += drawn_.size();
  ledger_.ops += drawn_.size();
  note(results_);
}

template <class Round>
void stress_worker::round(const std::atomic<bool>& rests, Round work) {
  // A worker counts itself before it looks at `rests`. So when `rounds_running` is 0 after `rests`
  // was set, all workers rest.
  ledger_.rounds_running += 1;
  if (rests)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  else if (auto* connected = client()) // `client` returns null when it cannot connect in time.
    work(*connected);
  ledger_.rounds_running -= 1;
  if (plan_.pause_between_calls.count() != 0)
    std::this_thread::sleep_for(plan_.pause_between_calls);
}

void stress_worker::write_until_stopped() {
  if (home_.enter)
    home_.enter();
  while (!ledger_.stop)
    round(ledger_.writers_rest, [this](auto& client) {
      if (draw() % 100 == 0)
        remove_some(client);
      else
        put_some(client);
      if (plan_.puts_per_flush != 0 && ++puts_since_flush_ % plan_.puts_per_flush == 0)
        timed("flush", [&](auto until) { (void)client.flush(until); });
      watch_view(client);
    });
}

void stress_worker::read_until_stopped() {
  if (home_.enter)
    home_.enter();
  while (!ledger_.stop)
    round(ledger_.readers_rest, [this](auto& client) {
      get_some(client);
      watch_view(client);
    });
}

} // namespace peercache::stress
