#include "cli/node_program.hpp"
#include "cli/stand_in.hpp"

#include <string_view>

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == peercache::cli::stand_in_word)
    return peercache::cli::run_in_place_of_peercache(argc - 1, argv + 1);
  return peercache::cli::run_node_program(argc, argv);
}
