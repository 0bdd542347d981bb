#include "storage/disk/offset/offset_index.hpp"

#include "common/assert.hpp"
#include "common/log.hpp"
#include "storage/disk/page_check.hpp"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/table.h>
#include <rocksdb/threadpool.h>
#include <rocksdb/write_batch.h>
#include <utility>

namespace peercache::storage {
namespace {

/// The RocksDB key of the next sequence: shorter than a page's key, so no page can have it.
constexpr std::string_view sequence_name = "next_sequence";

/// The value that is stored under `sequence_name`.
struct sequence_note {
  std::uint64_t next = 0;
  std::uint32_t crc = 0; ///< CRC-32C of `next`.
};

std::uint32_t note_crc_of(std::uint64_t next) noexcept {
  return crc32c(std::as_bytes(std::span<const std::uint64_t, 1>{&next, 1}));
}

rocksdb::Slice slice_of(const page_key& key) noexcept {
  return {reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size()};
}

error to_error(const rocksdb::Status& status, const std::string& doing) {
  const bool full = status.IsNoSpace() || status.subcode() == rocksdb::Status::kNoSpace;
  return {full ? errc::out_of_space : errc::io_failed,
          "cannot " + doing + " the index: " + status.ToString()};
}

/// The log of RocksDB: what RocksDB calls fatal goes to our log, and nothing else is logged,
/// because errors come back as statuses.
class fatal_log final : public rocksdb::Logger {
public:
  fatal_log() : rocksdb::Logger(rocksdb::FATAL_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 512> text;
    std::vsnprintf(text.data(), text.size(), format, arguments);
    log::error("disk: RocksDB: {}", text.data());
  }
};

/// Options for about 64 MiB of memory: three write buffers and a small cache, because only the next
/// sequence is ever looked up.
rocksdb::Options make_options() {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(8u << 20);
  table.block_size = 16u << 10;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // The values are digests and checksums, which do not compress.
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = 16u << 20;
  options.max_write_buffer_number = 3;
  options.max_total_wal_size = 32u << 20;
  options.max_manifest_file_size = 1u << 20;
  options.max_open_files = 128;
  options.max_background_jobs = 2;
  // A write-ahead log that is damaged before its end has lost records: then opening fails, and the
  // whole index is made again.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.info_log = std::make_shared<fatal_log>();
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

struct index_commit {
  rocksdb::WriteBatch batch;
  std::function<void()> wake;
  rocksdb::Status status;
  std::atomic<bool> ended{false}; ///< Set by the committer after it has set `status`.
};

/// An offset_index in RocksDB. A thread of the index runs the commits, so that the owner does not
/// wait for the sync of the log.
class rocks_index final : public offset_index {
public:
  explicit rocks_index(std::string folder)
      : folder_(std::move(folder)), options_(make_options()),
        committer_(rocksdb::NewThreadPool(1)) {}
  ~rocks_index() override { committer_->WaitForJobsAndJoinAllThreads(); }

  result<void> open();

  std::uint64_t room_bytes(std::uint64_t size_bytes) const override;
  result<std::optional<std::uint64_t>> load(std::uint32_t threads, const visit& each) override;
  result<void> clear() override;
  result<void> commit_now(const offset_index_batch& batch) override;
  void commit(offset_index_batch batch, std::function<void()> wake) override;
  std::optional<result<void>> committed() override;

private:
  rocksdb::Status open_db();
  rocksdb::Status write(rocksdb::WriteBatch& batch);
  rocksdb::Status load_range(unsigned first, unsigned end, std::uint32_t thread,
                             const visit& each) const;
  result<std::optional<std::uint64_t>> next_sequence() const;

  const std::string folder_;
  rocksdb::Options options_;
  const std::unique_ptr<rocksdb::ThreadPool> committer_; ///< The one thread that runs commits.
  // Members of the owner, which the committer uses instead while a commit (`job_`) is on its way.
  std::unique_ptr<rocksdb::DB> db_;
  bool failed_ = false; ///< Whether the last write failed.
  std::shared_ptr<index_commit> job_;
};

rocksdb::Status rocks_index::open_db() {
  rocksdb::DB* opened = nullptr;
  auto status = rocksdb::DB::Open(options_, folder_, &opened);
  db_.reset(opened);
  return status;
}

result<void> rocks_index::open() {
  std::error_code failure;
  std::filesystem::create_directories(folder_, failure);
  if (failure)
    return {errc::io_failed,
            "cannot make the index's folder '" + folder_ + "': " + failure.message()};
  const auto status = open_db();
  if (status.ok())
    return {};
  // The index is made again whatever the error is, also on a full device: the pages' file has all
  // that the index has.
  log::warn("disk: the index in '{}' cannot be opened and is made again, which takes a scan of all "
            "pages: {}",
            folder_, status.ToString());
  return clear();
}

result<void> rocks_index::clear() {
  db_.reset();
  if (auto status = rocksdb::DestroyDB(folder_, options_); !status.ok())
    return to_error(status, "throw away");
  if (auto status = open_db(); !status.ok())
    return to_error(status, "make");
  failed_ = false;
  return {};
}

/// Room for 256 bytes per record, compactions included, where each record has two blocks or more;
/// but at least what the log and the write buffers need, unless that were more than a quarter of
/// the tier.
std::uint64_t rocks_index::room_bytes(std::uint64_t size_bytes) const {
  constexpr std::uint64_t at_least = 64u << 20;
  return std::max(size_bytes / 32, std::min(at_least, size_bytes / 4));
}

// Functions that read the index.

result<std::optional<std::uint64_t>> rocks_index::next_sequence() const {
  std::string raw;
  rocksdb::ReadOptions how;
  const auto status = db_->Get(how, {sequence_name.data(), sequence_name.size()}, &raw);
  if (status.IsNotFound())
    return std::optional<std::uint64_t>{};
  if (!status.ok())
    return to_error(status, "read");
  sequence_note note;
  if (raw.size() == sizeof note.next + sizeof note.crc) {
    std::memcpy(&note.next, raw.data(), sizeof note.next);
    std::memcpy(&note.crc, raw.data() + sizeof note.next, sizeof note.crc);
  }
  if (note.next == 0 || note.crc != note_crc_of(note.next))
    return {errc::io_failed, "the index's sequence is damaged"};
  return std::optional(note.next);
}

rocksdb::Status rocks_index::load_range(unsigned first, unsigned end, std::uint32_t thread,
                                        const visit& each) const {
  rocksdb::ReadOptions how;
  how.fill_cache = false;
  how.readahead_size = 2u << 20;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator(how));
  const char from = static_cast<char>(first);
  page_key key;
  for (at->Seek({&from, 1}); at->Valid(); at->Next()) {
    const auto name = at->key();
    if (!name.empty() && static_cast<unsigned char>(name[0]) >= end)
      break;
    if (name.size() != key.bytes.size())
      continue;
    std::memcpy(key.bytes.data(), name.data(), name.size());
    const auto raw = at->value();
    each(thread, key, std::as_bytes(std::span<const char>(raw.data(), raw.size())));
  }
  return at->status();
}

result<std::optional<std::uint64_t>> rocks_index::load(std::uint32_t threads, const visit& each) {
  if (!db_)
    return {errc::io_failed, "the index is not open"};
  auto next = next_sequence();
  if (!next || !*next)
    return next;
  threads = std::clamp(threads, 1u, 256u);
  std::vector<rocksdb::Status> ends(threads);
  run_in_threads(threads, [&](std::uint32_t thread) {
    ends[thread] = load_range(thread * 256 / threads, (thread + 1) * 256 / threads, thread, each);
  });
  for (const auto& end : ends)
    if (!end.ok())
      return to_error(end, "read");
  return next;
}

// Functions that write the index.

rocksdb::WriteBatch to_rocks(const offset_index_batch& batch) {
  rocksdb::WriteBatch to;
  for (const auto& key : batch.removed)
    to.Delete(slice_of(key));
  for (const auto& header : batch.put)
    to.Put(slice_of(header.key), {reinterpret_cast<const char*>(&header), sizeof header});
  if (batch.next_sequence != 0) {
    const auto crc = note_crc_of(batch.next_sequence);
    std::array<char, sizeof batch.next_sequence + sizeof crc> raw;
    std::memcpy(raw.data(), &batch.next_sequence, sizeof batch.next_sequence);
    std::memcpy(raw.data() + sizeof batch.next_sequence, &crc, sizeof crc);
    to.Put({sequence_name.data(), sequence_name.size()}, {raw.data(), raw.size()});
  }
  return to;
}

/// Writes a batch, durably. RocksDB takes no write after a failed one until it is resumed or opened
/// again, so after a failure this function resumes or opens it first.
rocksdb::Status rocks_index::write(rocksdb::WriteBatch& batch) {
  if (failed_ || !db_) {
    auto ready = db_ ? db_->Resume() : rocksdb::Status::Aborted();
    if (!ready.ok()) {
      db_.reset();
      ready = open_db();
    }
    if (!ready.ok())
      return ready;
  }
  rocksdb::WriteOptions how;
  how.sync = true;
  auto status = db_->Write(how, &batch);
  failed_ = !status.ok();
  return status;
}

result<void> rocks_index::commit_now(const offset_index_batch& batch) {
  PEERCACHE_ASSERT(!job_);
  auto raw = to_rocks(batch);
  if (auto status = write(raw); !status.ok())
    return to_error(status, "write");
  return {};
}

void rocks_index::commit(offset_index_batch batch, std::function<void()> wake) {
  PEERCACHE_ASSERT(!job_);
  job_ = std::make_shared<index_commit>();
  job_->batch = to_rocks(batch);
  job_->wake = std::move(wake);
  committer_->SubmitJob([this, job = job_] {
    job->status = write(job->batch);
    job->ended = true;
    job->wake();
  });
}

std::optional<result<void>> rocks_index::committed() {
  if (!job_ || !job_->ended)
    return std::nullopt;
  const auto status = std::exchange(job_, nullptr)->status;
  return status.ok() ? result<void>{} : result<void>{to_error(status, "write")};
}

} // namespace

result<std::unique_ptr<offset_index>> open_rocks_index(const std::string& folder) {
  auto index = std::make_unique<rocks_index>(folder);
  if (auto opened = index->open(); !opened)
    return opened.error();
  return std::unique_ptr<offset_index>(std::move(index));
}

} // namespace peercache::storage
