#include "cli/node_program.hpp"

int main(int argc, char** argv) {
  return peercache::cli::run_node_program(argc, argv);
}
