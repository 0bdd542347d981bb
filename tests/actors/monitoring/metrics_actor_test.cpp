// Tests of when the metrics actor asks for the node's numbers, and of scrapes that wait for them.

#include "actors/monitoring/metrics_actor.hpp"

#include "tests/support/actor_fixture.hpp"

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace peercache::actors {
namespace metrics_actor_test {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

class metrics_actor_test : public test::actor_fixture {
protected:
  metrics_actor_test() {
    metrics_options options;
    options.gateway = caf::actor_cast<gateway_actor>(gateway);
    options.board = board;
    options.page_server_stats = [] { return page_server::snapshot{}; };
    options.rail_stats = [] { return std::vector<rdma::rail_servers::rail_snapshot>{}; };
    options.datagram_stats = [] { return served_datagrams::counts{}; };
    options.today = [this] {
      const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(
          system.clock().now().time_since_epoch());
      return static_cast<std::uint64_t>(since.count());
    };
    metrics = system.spawn(run_metrics, options);
    board->want_numbers = [this] { caf::anon_send(metrics, turn_atom_v, from_here{}); };
    settle();
  }
  ~metrics_actor_test() override {
    board->want_numbers = {};
    caf::anon_send_exit(metrics, caf::exit_reason::kill);
    caf::anon_send_exit(gateway, caf::exit_reason::kill);
    settle();
  }

  /// Plays the node's gateway, which holds back its answers while `silent`.
  static caf::behavior play_gateway(caf::event_based_actor* self, metrics_actor_test* test) {
    return {[self, test](status_atom) -> caf::result<node_report> {
              ++test->asked;
              node_report said;
              said.samples.set(metrics::metric::ready, test->asked);
              if (test->broken)
                return caf::make_error(caf::sec::runtime_error);
              if (!test->silent)
                return said;
              return test->open = self->make_response_promise<node_report>();
            },
            [test](turn_atom) { test->open.deliver(node_report{}); }};
  }
  /// Lets time pass until the numbers are too old to be told. Returns the time.
  clock::time_point later() {
    while (has_new_numbers(*board, system.clock().now()))
      pass(250ms);
    return system.clock().now();
  }
  double told() const { return board->numbers.value(metrics::metric::ready); }
  /// Scrapes at `when`. Returns after what the actors do for it at once.
  void scrape(clock::time_point when) {
    renew_numbers(
        *board, [this] { ++answered; }, when);
    settle();
  }
  /// Lets `time` pass, in steps of 250 ms.
  void wait(std::chrono::milliseconds time) {
    for (auto left = time; left > 0ms; left -= 250ms)
      pass(250ms);
  }

  std::shared_ptr<http_board> board = std::make_shared<http_board>();
  bool silent = false;
  bool broken = false;
  int asked = 0;    ///< How often the gateway was asked.
  int answered = 0; ///< How many scrapes were answered.
  caf::typed_response_promise<node_report> open;
  caf::actor gateway = system.spawn(play_gateway, this);
  metrics_actor metrics;
};

TEST_F(metrics_actor_test, at_rest_the_node_is_asked_once_in_five_seconds) {
  const auto before = asked;
  wait(30s);
  EXPECT_EQ(asked - before, 6);
}

TEST_F(metrics_actor_test, a_scrape_is_told_numbers_that_are_new) {
  const auto when = later();
  const auto before = asked;
  scrape(when);
  EXPECT_EQ(asked, before + 1);
  EXPECT_EQ(told(), asked);
  EXPECT_EQ(answered, 1);
  scrape(board->reported.load());
  EXPECT_EQ(asked, before + 1) << "these numbers are new";
  EXPECT_EQ(answered, 2);
  scrape(when + numbers_last);
  EXPECT_EQ(asked, before + 1) << "a report came between the scrape and its question";
  EXPECT_EQ(answered, 3);
}

TEST_F(metrics_actor_test, scrapes_that_come_together_share_a_question) {
  const auto when = later();
  const auto before = asked;
  silent = true;
  scrape(when);
  scrape(when);
  EXPECT_EQ(asked, before + 1);
  EXPECT_EQ(answered, 0);
  silent = false;
  pass(250ms);
  caf::anon_send(gateway, turn_atom_v);
  settle();
  EXPECT_EQ(answered, 2);
  EXPECT_EQ(board->reported.load(), when) << "numbers are as old as their question";
  scrape(later());
  EXPECT_EQ(asked, before + 2) << "the next scrape asks again";
}

TEST_F(metrics_actor_test, a_scrape_of_a_node_that_has_no_report_is_told_what_there_is) {
  broken = true;
  scrape(later());
  EXPECT_EQ(answered, 1);
}

TEST(number_wishes, of_more_scrapes_than_there_may_be_the_oldest_is_answered) {
  number_wishes wishes;
  std::vector<std::size_t> called;
  for (std::size_t i = 0; i <= number_wishes::waiting_max; ++i)
    wishes.add([&called, i] { called.push_back(i); });
  EXPECT_EQ(called, std::vector<std::size_t>{0});
  wishes.fulfil();
  EXPECT_EQ(called.size(), number_wishes::waiting_max + 1);
  wishes.fulfil();
  EXPECT_EQ(called.size(), number_wishes::waiting_max + 1) << "each is called once";
}

} // namespace metrics_actor_test
} // namespace peercache::actors
