#include "cli/command.hpp"
#include "client/cache_client.hpp"

#include <cstdio>
#include <unistd.h>

int main(int argc, char** argv) {
  const auto code = static_cast<int>(peercache::cli::run(argc, argv));
  // A thread that still ends its connection to a frozen node must not run beside the destructors of
  // static objects.
  if (peercache::client::ending_systems() > 0) {
    std::fflush(nullptr);
    ::_exit(code);
  }
  return code;
}
