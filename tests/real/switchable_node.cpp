// The program peercache-node for tests: its environment may switch guards off, make its device
// fail, and make its page server slow or send wrong bytes (common/guards.hpp).
// PEERCACHE_TEST_VERSION replaces the version that it tells, and PEERCACHE_TEST_SPEAKS_NEWER adds a
// number to the wire version that it tells.

#include "cli/node_program.hpp"
#include "common/guards.hpp"
#include "rdma/tcp/tcp_options.hpp"
#include "tests/fakes/faulty_disk_io.hpp"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

using namespace peercache;

namespace {

void spoil(rdma::tcp_server_faults& faults) {
  faults.flip_byte_one_in = fault_setting(fault::flip_byte_one_in);
  faults.send_chunk_bytes = fault_setting(fault::send_chunk_bytes);
  if (const auto pause_us = fault_setting(fault::send_pause_us); pause_us != 0)
    faults.between_chunks = [pause_us] {
      std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
    };
}

} // namespace

int main(int argc, char** argv) {
  actors::node_decorators decorators;
  decorators.pages = spoil;
  if (const char* version = std::getenv("PEERCACHE_TEST_VERSION"))
    decorators.version = version;
  if (const char* more = std::getenv("PEERCACHE_TEST_SPEAKS_NEWER"))
    decorators.speaks_newer = static_cast<std::uint32_t>(std::strtoul(more, nullptr, 10));
  if (const auto faults = storage::disk_faults::wanted(); faults.any())
    decorators.disk = [faults](std::unique_ptr<storage::disk_io> real) {
      return std::make_unique<storage::faulty_disk_io>(std::move(real), faults);
    };
  return cli::run_node_program(argc, argv, decorators);
}
