#include "client/async_calls.hpp"

#include "client/started_calls.hpp"
#include "common/forks.hpp"

#include <utility>

namespace peercache::client {

/// The client of an async_calls, and the threads of its running calls. Threads: any. Destroyed only
/// in the process that made it: a forked child has none of the threads.
struct async_calls::in_home {
  in_home(cache_client& of, std::uint32_t running_max) : client(of), calls(running_max) {}

  /// Makes `call(client, pages, results)` in a thread; where that is impossible, each page's result
  /// says why.
  template <class Page, class Call>
  std::future<results> begin(std::vector<Page> pages, Call call);

  cache_client& client;
  const home_process home;
  started_calls calls;
};

template <class Page, class Call>
std::future<async_calls::results> async_calls::in_home::begin(std::vector<Page> pages, Call call) {
  const auto each = std::make_shared<results>(pages.size());
  const auto told = std::make_shared<std::promise<results>>();
  auto outcome = told->get_future();
  const bool here = home.is_here();
  const bool begun = here && calls.begin(
                                 [this, each, call, pages = std::move(pages)] {
                                   call(client, std::span<const Page>{pages}, std::span{*each});
                                 },
                                 [each, told] { told->set_value(std::move(*each)); });
  if (!begun) {
    page_result why_not;
    why_not.status = here ? page_status::refused : page_status::closed;
    told->set_value(results(each->size(), why_not));
  }
  return outcome;
}

async_calls::async_calls(cache_client& client, std::uint32_t running_max)
    : body_(std::make_unique<in_home>(client, running_max)) {}

async_calls::~async_calls() {
  if (!body_->home.is_here())
    (void)body_.release(); // A forked child leaves the threads to its parent and frees nothing.
}

std::future<async_calls::results> async_calls::set(std::vector<set_page> pages,
                                                   std::optional<deadline> until) {
  return body_->begin(std::move(pages),
                      [until](auto& client, auto all, auto each) { client.set(all, each, until); });
}

std::future<async_calls::results> async_calls::get(std::vector<get_page> pages,
                                                   std::optional<deadline> until) {
  return body_->begin(std::move(pages),
                      [until](auto& client, auto all, auto each) { client.get(all, each, until); });
}

std::future<async_calls::results> async_calls::exists(std::vector<page_key> keys,
                                                      std::optional<deadline> until,
                                                      const exists_hold& hold) {
  return body_->begin(std::move(keys), [until, hold](auto& client, auto all, auto each) {
    client.exists(all, each, until, hold);
  });
}

std::future<async_calls::results>
async_calls::remove(std::vector<page_key> keys, std::optional<deadline> until, remove_scope scope) {
  return body_->begin(std::move(keys), [until, scope](auto& client, auto all, auto each) {
    client.remove(all, each, until, scope);
  });
}

} // namespace peercache::client
