#include "common/assert.hpp"
#include "tests/support/fake_verbs/fake_state.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace peercache::tests {

namespace {

fabric_state* the_fabric = nullptr;

std::string new_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "fake-verbs-XXXXXX").string();
  PEERCACHE_ASSERT(::mkdtemp(path.data()) != nullptr);
  return path;
}

const char* sysfs_name(ibv_gid_type type) {
  return type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : "IB/RoCE v1";
}

/// Writes the files that the kernel would show for a device in /sys/class/infiniband. Called only
/// when a test asks for the folder, because file systems are slow and most tests need no folder.
void write_sysfs(const std::string& folder, const fake_device& device) {
  namespace fs = std::filesystem;
  if (device.numa_node >= 0) {
    fs::create_directories(folder + "/device");
    std::ofstream(folder + "/device/numa_node") << device.numa_node << "\n";
  }
  for (std::size_t port = 0; port < device.ports.size() && !device.has_gid_types; ++port) {
    const std::string types = folder + "/ports/" + std::to_string(port + 1) + "/gid_attrs/types";
    fs::create_directories(types);
    const auto& gids = device.ports[port].gids;
    for (std::size_t index = 0; index < gids.size(); ++index)
      std::ofstream(types + "/" + std::to_string(index)) << sysfs_name(gids[index].type) << "\n";
  }
}

template <std::size_t Size>
void copy_text(char (&to)[Size], const std::string& text) {
  PEERCACHE_ASSERT(text.size() < Size);
  std::copy(text.begin(), text.end(), to);
}

} // namespace

event_fd::event_fd() : fd_(::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC)) {
  PEERCACHE_ASSERT(fd_ >= 0);
}

event_fd::~event_fd() {
  ::close(fd_);
}

void event_fd::raise() noexcept {
  const std::uint64_t one = 1;
  PEERCACHE_ASSERT(::write(fd_, &one, sizeof one) == sizeof one);
}

bool event_fd::take(int fd) noexcept {
  std::uint64_t one = 0;
  return ::read(fd, &one, sizeof one) == sizeof one;
}

fabric_state* current_fabric() {
  return the_fabric;
}

fabric_state& fabric() {
  PEERCACHE_ASSERT(the_fabric != nullptr);
  return *the_fabric;
}

int fabric_state::next_fault(fake_call what) {
  auto found = faults.find(what);
  if (found == faults.end() || found->second.times == 0)
    return 0;
  --found->second.times;
  return found->second.error;
}

device_state* fabric_state::find(const std::string& name) {
  auto found = std::find_if(devices.begin(), devices.end(),
                            [&](const auto& device) { return device->setup.name == name; });
  return found == devices.end() ? nullptr : found->get();
}

void fabric_state::tell(context_state& context, const ibv_async_event& event) {
  context.pending.push_back(event);
  context.events.raise();
}

struct fake_fabric::impl {
  fabric_state state;
};

fake_fabric::fake_fabric(std::uint64_t seed) : impl_(std::make_unique<impl>()) {
  PEERCACHE_ASSERT(the_fabric == nullptr);
  impl_->state.random.seed(seed);
  impl_->state.sysfs = new_folder();
  the_fabric = &impl_->state;
}

fake_fabric::~fake_fabric() {
  const fake_objects left = objects();
  if (!left.none())
    std::fprintf(stderr,
                 "fake verbs: left behind: %zu contexts, %zu domains, %zu regions, %zu channels, "
                 "%zu completion queues, %zu queue pairs, %zu windows\n",
                 left.contexts, left.domains, left.regions, left.channels, left.completion_queues,
                 left.queue_pairs, left.windows);
  PEERCACHE_ASSERT(left.none());
  std::filesystem::remove_all(impl_->state.sysfs);
  the_fabric = nullptr;
}

void fake_fabric::add(fake_device setup) {
  guard held(impl_->state.lock);
  PEERCACHE_ASSERT(impl_->state.find(setup.name) == nullptr);
  auto device = std::make_unique<device_state>();
  const std::string folder = impl_->state.sysfs + "/" + setup.name;
  write_sysfs(folder, setup);
  device->device.node_type = IBV_NODE_CA;
  device->device.transport_type = setup.transport;
  copy_text(device->device.name, setup.name);
  copy_text(device->device.dev_name, "uverbs" + std::to_string(impl_->state.devices.size()));
  copy_text(device->device.ibdev_path, folder);
  device->setup = std::move(setup);
  impl_->state.devices.push_back(std::move(device));
}

void fake_fabric::fail_listing(int error) {
  guard held(impl_->state.lock);
  impl_->state.listing_error = error;
}

void fake_fabric::fail(fake_call what, int error, unsigned times) {
  guard held(impl_->state.lock);
  impl_->state.faults[what] = {error, times};
}

void fake_fabric::advance(duration by) {
  guard held(impl_->state.lock);
  fabric_state& state = impl_->state;
  const nanoseconds target = state.now + by;
  while (!state.carrying_out) {
    const auto due = next_due(state);
    if (!due || *due > target)
      break;
    state.now = std::max(state.now, *due);
    carry_out_due(state, held);
  }
  state.now = std::max(state.now, target);
  carry_out_due(state, held);
}

fake_fabric::duration fake_fabric::now() const {
  guard held(impl_->state.lock);
  return impl_->state.now;
}

void fake_fabric::set_delay(duration least, duration most) {
  PEERCACHE_ASSERT(least <= most);
  guard held(impl_->state.lock);
  impl_->state.delay_least = least;
  impl_->state.delay_most = most;
}

void fake_fabric::set_retry_delay(duration delay) {
  guard held(impl_->state.lock);
  impl_->state.retry_delay = delay;
}

void fake_fabric::set_reorder(bool on) {
  guard held(impl_->state.lock);
  impl_->state.reorder = on;
}

void fake_fabric::hold() {
  guard held(impl_->state.lock);
  impl_->state.held = true;
}

void fake_fabric::release() {
  guard held(impl_->state.lock);
  impl_->state.held = false;
  carry_out_due(impl_->state, held);
}

std::size_t fake_fabric::step(std::size_t count) {
  guard held(impl_->state.lock);
  impl_->state.allowance = count;
  carry_out_due(impl_->state, held);
  return count - std::exchange(impl_->state.allowance, 0);
}

std::size_t fake_fabric::waiting() const {
  guard held(impl_->state.lock);
  return waiting_work(impl_->state);
}

void fake_fabric::before_each(hook what) {
  guard held(impl_->state.lock);
  impl_->state.before_each = std::move(what);
}

void fake_fabric::in_the_middle(hook what) {
  guard held(impl_->state.lock);
  impl_->state.in_the_middle = std::move(what);
}

void fake_fabric::keep_completions_of_destroyed(bool keep) {
  guard held(impl_->state.lock);
  impl_->state.keep_completions = keep;
}

void fake_fabric::simulate_rails(double bytes_per_second, duration latency) {
  guard held(impl_->state.lock);
  impl_->state.rails = {true, bytes_per_second, latency};
}

} // namespace peercache::tests
