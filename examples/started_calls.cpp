// Calls of the C library from C++, started and heard of by a descriptor, as an event loop does:
// started_calls PORT CLUSTER, of a node of this host.
//
//   c++ -std=c++17 started_calls.cpp $(pkg-config --cflags --libs peercache) -o started_calls
#include <peercache/peercache.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

namespace {

struct destroy {
  void operator()(peercache_client* client) const { peercache_destroy(client); }
  void operator()(peercache_call* call) const { peercache_call_free(call); }
  void operator()(peercache_space* space) const { peercache_space_free(space); }
};
template <class Handle>
using owned = std::unique_ptr<Handle, destroy>;

owned<peercache_client> connect(const char* port, const char* cluster) {
  const peercache_option options[] = {{"client.node_port", port}, {"cluster.name", cluster}};
  peercache_settings settings = PEERCACHE_SETTINGS_INIT;
  settings.options = options;
  settings.option_count = 2;
  peercache_client* client = nullptr;
  if (peercache_connect(&settings, &client) != PEERCACHE_OK)
    std::fprintf(stderr, "connect: %s\n", peercache_last_error());
  return owned<peercache_client>{client};
}

/// Pages of one batch, in memory of their own.
class pages {
public:
  pages(std::size_t count, std::uint32_t page_bytes)
      : bytes_(count * page_bytes), parts_(count), pages_(count), results_(count) {
    const peercache_text field = {"started-calls", 13};
    peercache_space* made = nullptr;
    peercache_space_create(&field, 1, &made);
    const owned<peercache_space> space{made};
    for (std::size_t i = 0; i < count; ++i) {
      const auto name = "page-" + std::to_string(i);
      parts_[i] = {bytes_.data() + i * page_bytes, page_bytes, 0};
      pages_[i].parts = &parts_[i];
      pages_[i].part_count = 1;
      peercache_space_key(space.get(), name.data(), name.size(), &pages_[i].key);
    }
    batch_.pages = pages_.data();
    batch_.results = results_.data();
    batch_.count = count;
  }

  const peercache_batch& batch() const { return batch_; }
  void fill(unsigned char byte) { std::memset(bytes_.data(), byte, bytes_.size()); }
  bool all_are(std::uint32_t status) const {
    for (const auto& result : results_)
      if (result.status != status)
        return false;
    return true;
  }
  bool is_filled_with(unsigned char byte) const {
    return bytes_ == std::vector<unsigned char>(bytes_.size(), byte);
  }

private:
  std::vector<unsigned char> bytes_;
  std::vector<peercache_part> parts_;
  std::vector<peercache_page> pages_;
  std::vector<peercache_result> results_;
  peercache_batch batch_ = PEERCACHE_BATCH_INIT;
};

/// Starts a call and waits for it with poll(2), where an event loop would wait for its other
/// sockets, too.
bool run(peercache_client* client, int operation, const pages& of, int event_fd) {
  peercache_completion completion = PEERCACHE_COMPLETION_INIT;
  completion.event_fd = event_fd;
  peercache_call* started = nullptr;
  if (peercache_start(client, operation, &of.batch(), &completion, &started) != PEERCACHE_OK)
    return false;
  const owned<peercache_call> call{started};
  pollfd ready{event_fd, POLLIN, 0};
  std::uint64_t completed = 0;
  return poll(&ready, 1, 10'000) == 1 &&
         read(event_fd, &completed, sizeof completed) == sizeof completed &&
         peercache_call_wait(call.get(), 0) == PEERCACHE_OK;
}

} // namespace

int main(int count, char** words) {
  const auto client = connect(count > 1 ? words[1] : "31998", count > 2 ? words[2] : "peercache");
  if (!client)
    return 1;
  const int event_fd = eventfd(0, EFD_CLOEXEC);
  pages moved(16, 65536);
  moved.fill(42);
  const bool stored = run(client.get(), PEERCACHE_OPERATION_SET, moved, event_fd) &&
                      moved.all_are(PEERCACHE_STATUS_STORED);
  moved.fill(0);
  const bool got = run(client.get(), PEERCACHE_OPERATION_GET, moved, event_fd) &&
                   moved.all_are(PEERCACHE_STATUS_HIT) && moved.is_filled_with(42);
  close(event_fd);
  std::printf("16 pages stored: %s\nthe same bytes: %s\n", stored ? "yes" : "NO",
              got ? "yes" : "NO");
  return stored && got ? 0 : 1;
}
