// A user's program that includes every installed C++ header and uses every function that the
// headers declare, so that linking it fails if the library does not export one of them.
#include <cstdio>
#include <peercache/client/admin_client.hpp>
#include <peercache/client/async_calls.hpp>
#include <peercache/client/cache_client.hpp>
#include <peercache/client/page_view.hpp>
#include <peercache/common/assert.hpp>
#include <peercache/common/hash_seed.hpp>
#include <peercache/common/page_key.hpp>
#include <peercache/discovery/view.hpp>
#include <peercache/link/node_status.hpp>
#include <peercache/metrics/latency_histogram.hpp>
#include <peercache/metrics/metric_table.hpp>
#include <peercache/metrics/samples.hpp>
#include <peercache/rdma/verbs/rail_choice.hpp>

using namespace peercache;

namespace {

/// Takes functions that only work with a cluster. The program need not call them: it links only if
/// they exist, so they are compared with null.
template <class... Function>
bool all_there(Function... functions) {
  return ((functions != nullptr) && ...);
}

bool calls_of_clients() {
  using client::admin_client;
  using client::async_calls;
  using client::cache_client;
  using client::page_view;
  return all_there(&cache_client::connect, &cache_client::set, &cache_client::get,
                   &cache_client::exists, &cache_client::remove, &cache_client::prefetch,
                   &cache_client::look_at, &cache_client::flush, &cache_client::locate,
                   &cache_client::clear, &cache_client::stats, &cache_client::view,
                   &cache_client::close, &cache_client::data_plane, &cache_client::nodes_gone,
                   &cache_client::register_buffer, &cache_client::unregister_buffer,
                   &cache_client::report_gpu, &cache_client::overlap) &&
         all_there(&page_view::bytes, &page_view::held, &page_view::intact) &&
         all_there(&async_calls::set, &async_calls::get, &async_calls::exists,
                   &async_calls::remove) &&
         all_there(&admin_client::connect, &admin_client::status, &admin_client::view,
                   &admin_client::history, &admin_client::drain, &admin_client::set_drained,
                   &admin_client::forget, &admin_client::clear, &admin_client::verify_disk,
                   &admin_client::evict_disk) &&
         all_there(&link::status_of) &&
         all_there(static_cast<result<rdma::rail_choice> (*)(const rdma::rail_settings&)>(
             &rdma::choose_rails));
}

bool keys_and_ids() {
  hash_seed::draw();
  const std::string_view fields[] = {"model"};
  const auto key = key_space(fields).key_of("prefix");
  const auto again = parse_page_key(to_string(key));
  const auto inc = incarnation::random();
  return again && *again == key && inc == inc && !to_string(inc).empty() &&
         !to_string(node_id_of("node")).empty() && !to_string(page_status::hit).empty() &&
         !to_string(error{errc::closed, "ended"}).empty();
}

bool views() {
  discovery::view first;
  const discovery::view second = first;
  return !first.newer_than(second) && first.find(node_id_of("node")) == nullptr &&
         first.find(incarnation{}) == nullptr && first.find_name("node") == nullptr &&
         first.find_gone("node") == nullptr && !first.is_master("node") &&
         first.leader() == nullptr && discovery::natural_less("node-2", "node-10") &&
         !to_string(discovery::departure{}).empty() && all_there(&discovery::view::masters_lost);
}

bool numbers() {
  using namespace metrics;
  latency_histogram latencies;
  latencies.record(std::chrono::milliseconds(1));
  auto taken = latencies.snapshot();
  taken.merge(taken);
  samples of_a_node;
  of_a_node.set(series_of(metric::ready, {}), 1.0);
  of_a_node.add(of_a_node);
  const auto& ready = info_of(metric::ready);
  return taken.quantile_ns(0.5) > 0 &&
         taken.count_at_most(latency_histogram::upper_bound_ns(0)) == 0 &&
         latency_histogram::bucket_of(1) == 0 && of_a_node.value(metric::ready) > 0 &&
         find_metric(ready.name) == &ready && !metric_table().empty() &&
         !metrics_document().empty() && !histogram_bounds_ns().empty() &&
         !to_string(ready.type).empty() && may_have(ready, series_of(metric::ready, {}));
}

} // namespace

int main() {
  PEERCACHE_ASSERT(calls_of_clients());
  PEERCACHE_ASSERT(keys_and_ids());
  PEERCACHE_ASSERT(views());
  PEERCACHE_ASSERT(numbers());
  std::puts("every header: ok");
}
