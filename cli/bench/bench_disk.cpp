#include "cli/bench/bench_disk.hpp"

#include "cli/bench/bench_setup.hpp"
#include "config/node_config.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace peercache::cli {

namespace {

namespace fs = std::filesystem;

/// Page size from which rows compare bytes per second; rows of smaller pages compare pages per
/// second.
constexpr std::uint64_t large_page_bytes = 256u << 10;
constexpr double gib = 1u << 30;

/// A folder that the bench makes and removes at its end.
class scratch_folder {
public:
  static result<std::unique_ptr<scratch_folder>> make(const std::string& below) {
    auto path = (fs::absolute(below) / "peercache-bench-disk-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr)
      return {errc::io_failed,
              fmt::format("cannot make a folder in '{}': {}", below, std::strerror(errno))};
    return std::unique_ptr<scratch_folder>(new scratch_folder(path));
  }
  ~scratch_folder() { clear(""); }

  fs::path operator/(const std::string& name) const { return path_ / name; }

  /// Removes the entry `name` of the folder, the whole folder when `name` is empty, and waits until
  /// the file system is done: the next measurement must not pay for the removal.
  void clear(const std::string& name) const {
    std::error_code ignored;
    fs::remove_all(name.empty() ? path_ : path_ / name, ignored);
    settle();
  }

  /// Waits until the file system has carried out all earlier writes and removals.
  void settle() const {
    const int fd = ::open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
      return;
    ::syncfs(fd);
    ::close(fd);
  }

private:
  explicit scratch_folder(fs::path path) : path_(std::move(path)) {}
  fs::path path_;
};

/// State that all measurements of one run of the bench share.
struct disk_bench {
  const disk_bench_options& options;
  const scratch_folder& folder;
  std::span<std::byte> memory;
};

/// A page size to measure, with the fio run to compare with and the CPU time that starting fio
/// takes.
struct page_case {
  std::uint64_t page_bytes = 0;
  fio_run fio;
  double fio_start_cpu_seconds = 0;
  /// How long the device is left idle before each round of the disk tier or of fio: a device with a
  /// rate limit saves up credit while it rests.
  std::chrono::seconds rest{};
  /// How long fio takes to start, which is a further rest for the device: the disk tier's rounds
  /// begin after a rest of the same length.
  std::chrono::duration<double> fio_start{};
};

/// Maps the memory of the pages: shared like a pool's, or in transparent huge pages, from which the
/// device gets fewer and longer pieces.
result<bench::big_memory> map_memory(const disk_bench_options& options) {
  using kind = bench::big_memory::kind;
  auto memory = bench::big_memory::map(options.memory_bytes,
                                       options.huge_pages ? kind::anonymous : kind::shared);
  if (memory && options.huge_pages) {
    const auto bytes = memory->bytes();
    // `map` has touched the memory in pages of 4 KiB, so these are given back before huge pages are
    // asked for.
    if (::madvise(bytes.data(), bytes.size(), MADV_DONTNEED) != 0 ||
        ::madvise(bytes.data(), bytes.size(), MADV_HUGEPAGE) != 0)
      return {errc::io_failed, fmt::format("no transparent huge pages: {}", std::strerror(errno))};
  }
  return memory;
}

void fill(std::span<std::byte> memory) {
  std::mt19937_64 random(7);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= memory.size();
       at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(memory.data() + at, &word, sizeof word);
  }
}

result<page_case> make_case(const disk_bench& run, std::uint64_t page_bytes) {
  page_case made;
  made.page_bytes = page_bytes;
  made.rest = std::chrono::seconds(run.options.rest_s);
  made.fio = {.what = fio_run::kind::write,
              .file = (run.folder / "fio").string(),
              .block_bytes = page_bytes,
              .total_bytes = page_bytes,
              .depth = run.options.depth,
              .registered = run.options.fio_registers,
              .huge_pages = run.options.huge_pages};
  const auto begin = bench::clock::now();
  auto nothing = run_fio(made.fio);
  if (!nothing)
    return nothing.error();
  made.fio_start = bench::clock::now() - begin;
  made.fio_start_cpu_seconds = nothing->cpu_seconds;
  made.fio.total_bytes = run.options.pages_of(page_bytes) * page_bytes;
  run.folder.clear("fio");
  return made;
}

/// Collects the rounds of one row and the CPU time that the operation and its limit spent on them.
class measured_row {
public:
  explicit measured_row(bench_row row) : row_(std::move(row)) {}

  /// Measures `rounds` rounds of `operation` and `limit` in turns. Both callables return a
  /// disk_sample.
  template <class Operation, class Limit>
  result<bench_row> take(std::uint32_t rounds, Operation&& operation, Limit&& limit) {
    const auto of = [](auto& call, std::vector<double>& costs) {
      return [&call, &costs]() -> result<bench::round_sample> {
        auto did = call();
        if (!did)
          return did.error();
        costs.push_back(did->cpu_seconds / (did->sample.units / gib));
        return std::move(did->sample);
      };
    };
    if (auto done = measure(row_, rounds, of(operation, ours_), of(limit, limits_)); !done)
      return done.error();
    row_.cpu = cpu_cost{bench::median(ours_), bench::median(limits_)};
    return std::move(row_);
  }

private:
  bench_row row_;
  std::vector<double> ours_;
  std::vector<double> limits_;
};

result<disk_sample> fio_sample(const page_case& what, fio_run::kind kind) {
  std::this_thread::sleep_for(what.rest);
  auto run = what.fio;
  run.what = kind;
  auto sample = run_fio(run);
  if (sample)
    sample->cpu_seconds = std::max(0.0, sample->cpu_seconds - what.fio_start_cpu_seconds);
  return sample;
}

bench_row row_of(const disk_bench& run, const page_case& what, const std::string& name,
                 const std::string& store) {
  return {.name = name,
          .page_bytes = what.page_bytes,
          .batch = run.options.depth,
          .verify = name == "disk_promote",
          .target = disk_target(what.page_bytes),
          .store = store};
}

/// Whether the files of all rounds stay until the end of the bench. With one file per page they do:
/// ext4 without a journal reuses no inode that was freed within some minutes, and looks at each
/// such inode for every file that is made, so a round would pay for the removal of the files of the
/// previous round.
bool keeps_files(const std::string& store) {
  return store == config::to_string(config::disk_store_mode::file_per_key);
}

/// Measures writes against fio's. In each round the disk tier and fio write the same number of
/// bytes into new files and make them durable.
result<bench_row> bench_writes(const disk_bench& run, const page_case& what,
                               const std::string& store) {
  std::uint32_t round = 0;
  const auto write = [&]() -> result<disk_sample> {
    const auto folder = fmt::format("{}-{}-{}", store, what.page_bytes, round++);
    auto tier = disk_bench_tier::open(run.options, {(run.folder / folder).string(), store},
                                      run.memory, what.page_bytes);
    if (!tier)
      return tier.error();
    run.folder.settle();
    std::this_thread::sleep_for(what.rest + what.fio_start);
    auto sample = (*tier)->write_all();
    tier->reset();
    if (!keeps_files(store))
      run.folder.clear(folder);
    return sample;
  };
  const auto write_with_fio = [&] {
    auto sample = fio_sample(what, fio_run::kind::write);
    run.folder.clear("fio");
    return sample;
  };
  return measured_row(row_of(run, what, "disk_write", store))
      .take(run.options.rounds, write, write_with_fio);
}

result<bench_row> bench_promotes(const disk_bench& run, const page_case& what,
                                 const std::string& store) {
  const auto folder = fmt::format("{}-{}", store, what.page_bytes);
  auto tier = disk_bench_tier::open(run.options, {(run.folder / folder).string(), store},
                                    run.memory, what.page_bytes);
  if (!tier)
    return tier.error();
  if (auto stored = (*tier)->write_all(); !stored)
    return stored.error();
  if (auto laid_out = fio_sample(what, fio_run::kind::write); !laid_out)
    return laid_out.error();
  const auto promote = [&] {
    std::this_thread::sleep_for(what.rest + what.fio_start);
    return (*tier)->read_all();
  };
  auto row =
      measured_row(row_of(run, what, "disk_promote", store)).take(run.options.rounds, promote, [&] {
        return fio_sample(what, fio_run::kind::read);
      });
  tier->reset();
  if (!keeps_files(store))
    run.folder.clear(folder);
  run.folder.clear("fio");
  return row;
}

result<void> check_room(const disk_bench_options& options) {
  std::uint64_t most = 0;
  std::uint64_t kept = 0;
  for (auto bytes : options.sizes) {
    most = std::max(most, options.pages_of(bytes) * bytes);
    kept += options.pages_of(bytes) * (bytes + storage::disk_block_bytes);
  }
  if (std::ranges::any_of(options.stores, keeps_files))
    most += kept * (options.rounds + 1);
  std::error_code failed;
  const auto space = fs::space(options.path, failed);
  const auto needed = most + options.size_bytes;
  if (!failed && space.available >= needed)
    return {};
  return {errc::out_of_space,
          failed ? fmt::format("cannot look at '{}': {}", options.path, failed.message())
                 : fmt::format("'{}' has {} free, and the bench takes up to {}: choose another "
                               "--path, or less --size",
                               options.path, human_bytes(space.available), human_bytes(needed))};
}

} // namespace

std::uint64_t disk_bench_options::pages_of(std::uint64_t page_bytes) const noexcept {
  return std::clamp<std::uint64_t>(round_bytes / page_bytes, 1, round_pages);
}

bool disk_bench_options::wants(const std::string& name) const {
  return only.empty() || std::find(only.begin(), only.end(), name) != only.end();
}

double disk_target(std::uint64_t page_bytes) noexcept {
  return page_bytes >= large_page_bytes ? 0.9 : 0.7;
}

result<std::vector<bench_row>> run_disk_bench(const disk_bench_options& options) {
  if (auto room = check_room(options); !room)
    return room.error();
  auto folder = scratch_folder::make(options.path);
  if (!folder)
    return folder.error();
  auto memory = map_memory(options);
  if (!memory)
    return memory.error();
  fill(memory->bytes());
  const disk_bench run{options, **folder, memory->bytes()};
  std::vector<bench_row> rows;
  progress_bar bar(stderr, "measuring", options.sizes.size() * options.stores.size() * 2);
  std::uint64_t done = 0;
  for (auto bytes : options.sizes) {
    auto what = make_case(run, bytes);
    if (!what)
      return what.error();
    for (const auto& store : options.stores) {
      for (const char* name : {"disk_write", "disk_promote"}) {
        bar.update(done++, fmt::format("{} ({})", name, store));
        if (!options.wants(name))
          continue;
        auto row = name == std::string_view("disk_write") ? bench_writes(run, *what, store)
                                                          : bench_promotes(run, *what, store);
        if (!row)
          return error{row.error().code,
                       fmt::format("{} ({}): {}", name, store, row.error().message)};
        rows.push_back(*std::move(row));
      }
    }
  }
  return rows;
}

} // namespace peercache::cli
