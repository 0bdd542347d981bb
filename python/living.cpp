#include "python/living.hpp"

#include "client/cache_client.hpp"

namespace peercache::python {

std::atomic<int>& living_count() noexcept {
  static std::atomic<int> count{0};
  return count;
}

int living() noexcept {
  return living_count().load() + client::ending_systems();
}

void forget_living() noexcept {
  living_count().store(0);
}

} // namespace peercache::python
