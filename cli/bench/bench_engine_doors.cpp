#include "cli/bench/bench_hicache.hpp"

namespace peercache::cli {

namespace {

using kind = hicache_work::kind;

constexpr engine_case hicache_cases[] = {
    {"hicache_exists", kind::exists, bench_place::here, {}},
    {"hicache_get", kind::get, bench_place::here, 0.95},
    {"hicache_get_other_host", kind::get, bench_place::there, 0.95},
    {"hicache_request_other_host", kind::request, bench_place::there, {}},
    {"hicache_set", kind::set, bench_place::here, 0.95},
};

constexpr engine_case vllm_cases[] = {
    {"vllm_lookup", kind::exists, bench_place::here, {}},
    {"vllm_load", kind::get, bench_place::here, 0.95},
    {"vllm_load_other_host", kind::get, bench_place::there, 0.95},
    {"vllm_store", kind::set, bench_place::here, 0.95},
};

constexpr engine_case lmcache_cases[] = {
    {"lmcache_lookup", kind::exists, bench_place::here, {}},
    {"lmcache_load", kind::get, bench_place::here, 0.95},
    {"lmcache_load_other_host", kind::get, bench_place::there, 0.95},
    {"lmcache_store", kind::set, bench_place::here, 0.95},
};

} // namespace

std::span<const engine_door> engine_doors() {
  static const engine_door doors[] = {
      {"hicache",
       "SGLang's storage backend in Python beside the C++ client: batches of 128 pages as "
       "the engine's controller makes them; of the last two of each round every byte is compared",
       "peercache.hicache.simulator", "the package (scripts/build-wheel) and torch", hicache_cases,
       "hicache_get_other_host_raw", false},
      {"vllm",
       "vLLM's secondary tier in Python beside the C++ client: a look-up, a load or a store of 128 "
       "chunks at a time; of the last two loads of each round every byte is compared",
       "peercache.simulators.vllm", "the package (scripts/build-wheel)", vllm_cases, nullptr, true},
      {"lmcache",
       "LMCache's connector in Python beside the C++ client: batches of 128 chunks, polled for and "
       "drained; of the last two gets of each round every byte is compared",
       "peercache.simulators.lmcache", "the package (scripts/build-wheel)", lmcache_cases, nullptr,
       true},
  };
  return doors;
}

} // namespace peercache::cli
