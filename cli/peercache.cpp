#include "cli/command.hpp"

int main(int argc, char** argv) {
  return static_cast<int>(peercache::cli::run(argc, argv));
}
