// A user's program, built with nothing but the installed library: names a page, tries to connect to
// a node that does not exist, and must get a reason instead of an exception or a hang.
#include "common/error.hpp"

#include <chrono>
#include <cstdio>
#include <peercache/client/cache_client.hpp>

static_assert(peercache::consumer_of_its_own::own_error == 7);

int main() {
  using namespace std::chrono_literals;
  peercache::client::client_options options;
  options.node_port = 1; // Nobody listens on this port.
  options.timeout = 500ms;
  const auto begin = std::chrono::steady_clock::now();
  const auto client = peercache::client::cache_client::connect(options);
  const auto took = std::chrono::steady_clock::now() - begin;
  if (client || took > 5s) {
    std::puts("connected to nobody, or waited too long");
    return 1;
  }
  std::printf("no node, as expected: %s\n", to_string(client.error()).c_str());
  return 0;
}
