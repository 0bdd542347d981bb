// peercache-node with guards that can be switched off, and a device that fails as the environment
// says (common/guards.hpp).

#include "cli/node_program.hpp"
#include "tests/fakes/faulty_disk_io.hpp"

#include <memory>
#include <utility>

using namespace peercache;

int main(int argc, char** argv) {
  actors::node_decorators decorators;
  if (const auto faults = storage::disk_faults::wanted(); faults.any())
    decorators.disk = [faults](std::unique_ptr<storage::disk_io> real) {
      return std::make_unique<storage::faulty_disk_io>(std::move(real), faults);
    };
  return cli::run_node_program(argc, argv, decorators);
}
