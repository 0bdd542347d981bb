#include "tests/fakes/faulty_disk_io.hpp"

#include "common/guards.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace peercache::storage {

disk_faults disk_faults::wanted() noexcept {
  disk_faults faults;
  faults.error_percent = fault_setting(fault::disk_error_percent);
  faults.stall = std::chrono::milliseconds(fault_setting(fault::disk_stall_ms));
  faults.lasting = std::chrono::milliseconds(fault_setting(fault::disk_faults_for_ms));
  faults.kill_step = fault_setting(fault::disk_kill_point);
  faults.kill_count = std::max(1u, fault_setting(fault::disk_kill_count));
  return faults;
}

faulty_disk_io::faulty_disk_io(std::unique_ptr<disk_io> real, const disk_faults& faults)
    : real_(std::move(real)), faults_(faults) {}

bool faulty_disk_io::faults_now() const noexcept {
  return started_ && (faults_.lasting.count() == 0 || clock::now() - *started_ < faults_.lasting);
}

void faulty_disk_io::pass(disk_step step) noexcept {
  if (faults_.kill_step == static_cast<std::uint32_t>(step) && ++passed_ == faults_.kill_count)
    std::raise(SIGKILL);
}

result<disk_file> faulty_disk_io::create(const std::string& file, std::uint64_t bytes) {
  auto made = real_->create(file, bytes);
  pass(disk_step::create);
  return made;
}

result<void> faulty_disk_io::truncate(disk_file file, std::uint64_t bytes) {
  auto done = real_->truncate(file, bytes);
  pass(disk_step::truncate);
  return done;
}

result<void> faulty_disk_io::rename(const std::string& from, const std::string& to) {
  auto done = real_->rename(from, to);
  pass(disk_step::rename);
  return done;
}

result<void> faulty_disk_io::remove(const std::string& file) {
  auto done = real_->remove(file);
  pass(disk_step::remove);
  return done;
}

result<void> faulty_disk_io::sync_folder(const std::string& folder) {
  auto done = real_->sync_folder(folder);
  pass(disk_step::sync_folder);
  return done;
}

bool faulty_disk_io::submit(const disk_request& request) {
  if (on_way_[is_sync(request.what)] >= queue_depth())
    return false;
  if (!started_ && request.what == disk_request::kind::write)
    started_ = clock::now();
  const bool faulty = faults_now();
  if (faulty && faults_.error_percent != 0 && random_() % 100 < faults_.error_percent) {
    late_.push_back({{request.tag, EIO}, is_sync(request.what), clock::now() + faults_.stall});
    ++on_way_[is_sync(request.what)];
    return true;
  }
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(sent_.size()));
    sent_.emplace_back();
  }
  auto renamed = request;
  renamed.tag = free_.back();
  if (!real_->submit(renamed))
    return false;
  sent_[free_.back()] = {request.tag, request.what};
  free_.pop_back();
  ++on_way_[is_sync(request.what)];
  if (request.what == disk_request::kind::write)
    pass(disk_step::write_submitted);
  if (request.what == disk_request::kind::sync)
    pass(disk_step::sync_submitted);
  return true;
}

void faulty_disk_io::take_real() {
  std::array<disk_completion, 64> done;
  const auto count = real_->reap(done);
  const auto at = clock::now() + (faults_now() ? faults_.stall : std::chrono::milliseconds(0));
  for (std::size_t i = 0; i < count; ++i) {
    const auto own = static_cast<std::uint32_t>(done[i].tag);
    const auto what = sent_[own];
    free_.push_back(own);
    late_.push_back({{what.tag, done[i].error}, is_sync(what.what), at});
    // For each disk_request::kind, in its order: the step that follows the completion of such a
    // request.
    constexpr std::array steps = {disk_step::read_done, disk_step::write_done, disk_step::sync_done,
                                  disk_step::sync_folder};
    pass(steps[static_cast<std::size_t>(what.what)]);
  }
}

std::size_t faulty_disk_io::reap(std::span<disk_completion> completions) {
  take_real();
  std::size_t count = 0;
  const auto now = clock::now();
  while (count < completions.size() && !late_.empty() && late_.front().at <= now) {
    completions[count++] = late_.front().what;
    --on_way_[late_.front().is_sync];
    late_.pop_front();
  }
  return count;
}

void faulty_disk_io::wait(std::chrono::nanoseconds at_most) {
  if (!late_.empty())
    at_most = std::clamp<std::chrono::nanoseconds>(late_.front().at - clock::now(),
                                                   std::chrono::nanoseconds(0), at_most);
  real_->wait(at_most);
}

} // namespace peercache::storage
