// The gets of a node's clients.

#include "client/calls/read_plan.hpp"
#include "link/protocol/disk_wire.hpp"
#include "tests/scenario/client_call.hpp"
#include "tests/scenario/page_fetch.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace peercache::scenario {

using namespace std::chrono_literals;
using client::page_result;
using client::read_plan;
using std::chrono::duration_cast;
using std::chrono::milliseconds;

namespace {

/// Most look-ups that a get may make for its pages; a read plan that asks for more is wrong.
constexpr int looks_allowed = 2;
/// How long after its deadline a call may still return (client/cache_client.hpp).
constexpr auto lateness_allowed = 50ms;

std::vector<std::vector<std::byte>> memory_for(const std::vector<wanted_page>& wanted) {
  std::vector<std::vector<std::byte>> memory;
  for (const auto& page : wanted)
    memory.emplace_back(page.length_bytes);
  return memory;
}

std::vector<page_part> parts_of(std::vector<std::vector<std::byte>>& memory) {
  std::vector<page_part> parts;
  for (auto& page : memory)
    parts.push_back({page.data(), static_cast<std::uint32_t>(page.size())});
  return parts;
}

std::vector<client::get_page> pages_of(const std::vector<wanted_page>& wanted,
                                       const std::vector<page_part>& parts) {
  std::vector<client::get_page> pages;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    pages.push_back({wanted[i].key, std::span(parts).subspan(i, 1)});
  return pages;
}

/// Has the node `holder` promote the pages of a request, and returns its answer.
std::string serve_promote(process& holder, const std::string& request) {
  std::string answer;
  for (std::size_t i = 0; i < link::record_count<link::promoted_page>(request); ++i)
    answer += holder.serve_promote(link::record_at<link::promoted_page>(request, i).key);
  return answer;
}

/// One get of a client: does what a `client::read_plan` decides, and has the oracle judge the
/// outcome.
class get_call : public client_call<get_call> {
public:
  /// `done` is called once, unless the process has ended before.
  get_call(cluster& in, process& by, const std::vector<wanted_page>& wanted, pages_got done);
  void begin();

private:
  using places = std::vector<client::promote_plan::place>;

  void look();
  /// Takes answers of the directory; all other pages of the look-up stay as they are.
  void take_answers(std::span<const std::uint32_t> told,
                    std::span<const client::lookup_answer> answers);
  void read();
  /// Once the directory has answered, reads the pages that holders have promoted to memory by now.
  void read_promoted();
  void take_told();
  void end_look();
  void judge();
  void ask_holders(const client::promote_plan& pages, places& answers);
  void read_round();
  void read_page(const client::read_plan::page& page);
  void took(const client::read_plan::page& page, page_status status,
            std::span<const std::byte> bytes);
  bool is_late() const;
  /// Counts one message on its way; `next_` is called when all of them have arrived.
  void expect() { ++open_; }
  void arrived();

  const time_point begun_;
  const pages_got done_;
  std::vector<std::vector<std::byte>> memory_; ///< The caller's memory for each page.
  std::vector<page_part> parts_;
  std::vector<client::get_page> pages_;
  std::vector<client::page_result> results_;
  std::vector<incarnation> read_from_; ///< For each page: the process that it was read from.
  std::uint64_t recorded_ = 0;         ///< The call's number in the history.
  client::read_plan plan_;
  known_cluster_ptr known_; ///< The view, with its rings, that the current look-up uses.
  int looks_ = 0;
  std::size_t open_ = 0; ///< Messages of this call that are on their way.
  void (get_call::*next_)() = nullptr;
  /// Whether the directory has answered the current look-up, so that pages may be read.
  bool reads_ = false;
  places cold_;
  places holders_;
};

get_call::get_call(cluster& in, process& by, const std::vector<wanted_page>& wanted, pages_got done)
    : client_call(in, by), begun_(in.time().now()), done_(std::move(done)),
      memory_(memory_for(wanted)), parts_(parts_of(memory_)), pages_(pages_of(wanted, parts_)),
      results_(wanted.size()), read_from_(wanted.size()),
      plan_(pages_, results_, by.remembered().locations, by.remembered().stale) {}

bool get_call::is_late() const {
  return cluster_.time().now() >= until_;
}

void get_call::arrived() {
  if (--open_ == 0)
    (this->*next_)();
}

void get_call::begin() {
  recorded_ = by_.record_ask(until_, "get");
  look();
}

void get_call::look() {
  if (++looks_ > looks_allowed)
    cluster_.judge().fault("a page was looked for more than twice");
  known_ = by_.clients_know();
  plan_.follow(by_.readers_know());
  for (const auto index : plan_.take_missing())
    plan_.looked_at_own_host(index, by_.find_here(pages_[index].key, plan_.length_of(index)));
  plan_.take_remembered();
  reads_ = false;
  next_ = &get_call::take_told;
  expect(); // Counts the directory's answers as one message on its way.
  ask_holders(plan_.take_cold(), cold_);
  ask_holders(plan_.ask_holders(), holders_);
  auto keys = plan_.ask_directory();
  if (keys.empty())
    return read();
  const auto done = [self = shared_from_this()](std::span<const client::lookup_answer> answers) {
    std::vector<std::uint32_t> all(answers.size());
    std::iota(all.begin(), all.end(), 0u);
    self->take_answers(all, answers);
    self->read();
  };
  // The pages that were found begin to be read while other owners are asked. `done` comes last, so
  // it is what keeps this call alive.
  const auto told = [this](std::span<const std::uint32_t> which,
                           std::span<const client::lookup_answer> answers) {
    take_answers(which, answers);
    ask_holders(plan_.take_cold(), cold_);
    read_round();
  };
  read_round();
  by_.look_up(std::move(keys), until_, done, told);
}

void get_call::take_answers(std::span<const std::uint32_t> told,
                            std::span<const client::lookup_answer> answers) {
  client::reader_place reader;
  reader.own = by_.inc();
  reader.own_node = by_.on().self.id;
  for (const auto nth : told)
    if (answers[nth].status != page_status::pending)
      plan_.looked_up(nth, answers[nth], reader);
}

void get_call::read() {
  reads_ = true;
  ask_holders(plan_.take_cold(), cold_);
  read_round();
  read_promoted();
  arrived();
}

void get_call::read_promoted() {
  if (!reads_)
    return;
  for (const auto& place : std::exchange(cold_, {}))
    plan_.promoted(place, is_late());
  read_round();
}

void get_call::take_told() {
  for (const auto& place : std::exchange(holders_, {}))
    plan_.told_by_holder(place, is_late());
  next_ = &get_call::end_look;
  expect();
  read_round();
  arrived();
}

void get_call::end_look() {
  if (plan_.look_again())
    return look();
  judge();
  by_.record_return(recorded_);
  by_.tell_stale_records();
  done_(results_);
}

void get_call::ask_holders(const client::promote_plan& pages, places& answers) {
  for (const auto& share : pages.shares()) {
    if (known_->view.find(share.holder) == nullptr ||
        client::promote_plan::patience(duration_cast<milliseconds>(left())) <= 0ms) {
      for (const auto& place : client::promote_plan::places(share, {}))
        answers.push_back(place);
      continue;
    }
    expect();
    const auto take = [this, share, &answers](const std::string* said) {
      for (const auto& place : client::promote_plan::places(share, said != nullptr ? *said : ""))
        answers.push_back(place);
      read_promoted();
      arrived();
    };
    ask(share.holder, left(), take, serve_promote, share.request);
  }
}

void get_call::read_round() {
  for (const auto& page : plan_.take_round())
    read_page(page);
}

void get_call::read_page(const read_plan::page& page) {
  const bool own = plan_.is_own(page);
  if (own && !plan_.may_copy(page, is_late()))
    return;
  if (!own && known_->view.find(page.location.holder) == nullptr)
    cluster_.judge().fault("a page was read from a process that is in no view");
  expect();
  auto coming = std::make_shared<page_fetch>();
  coming->key = pages_[page.index].key;
  coming->from = page.location;
  coming->until = until_;
  coming->done = [self = shared_from_this(), page, bytes = std::weak_ptr(coming)](auto status) {
    self->took(page, status, bytes.lock()->bytes);
  };
  if (own)
    copy_own(cluster_, by_, coming);
  else
    fetch(cluster_, by_, coming);
}

void get_call::took(const read_plan::page& page, page_status status,
                    std::span<const std::byte> bytes) {
  if (status == page_status::hit) {
    std::copy_n(bytes.begin(), memory_[page.index].size(), memory_[page.index].begin());
    read_from_[page.index] = page.location.holder;
    cluster_.time().note(page.location.gen.value);
  }
  if (plan_.is_own(page))
    plan_.copied(page, status);
  else
    plan_.was_read(page.index, page.location, status, page_origin::other_host);
  arrived();
}

void get_call::judge() {
  const auto now = cluster_.time().now();
  if (now > until_ + lateness_allowed && by_.on().thawed_at < begun_)
    cluster_.judge().fault("a get came back after its deadline");
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (results_[i].status != page_status::hit) {
      ++cluster_.counts().misses;
      continue;
    }
    ++cluster_.counts().hits;
    cluster_.judge().judge_hit(pages_[i].key, read_from_[i], memory_[i]);
    if (auto* record = cluster_.record())
      record->hit(recorded_, pages_[i].key, memory_[i], to_string(read_from_[i]));
  }
}

} // namespace

void process::get(const std::vector<wanted_page>& pages, pages_got done) {
  std::make_shared<get_call>(cluster_, *this, pages, std::move(done))->begin();
}

void process::get(const wanted_page& page, std::function<void(page_status)> done) {
  get(std::vector{page}, [done = std::move(done)](std::span<const client::page_result> results) {
    done(results[0].status);
  });
}

} // namespace peercache::scenario
