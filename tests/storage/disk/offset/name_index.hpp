#pragma once

#include "storage/disk/io/disk_io.hpp"
#include "storage/disk/offset/offset_index.hpp"

#include <map>
#include <set>
#include <string>

namespace peercache::storage {

/// An `offset_index` on the memory disk of a test, so that it fails and loses power together with
/// the pages. Each record is the name of an empty file. A batch is committed at the second call of
/// `committed`. After a loss of power, of the names that no sync of the folder has made durable
/// some may be there and some not. Threads: one.
class name_index final : public offset_index {
public:
  explicit name_index(disk_io& io) : io_(io) {}

  std::uint64_t room_bytes(std::uint64_t) const override { return 0; }
  result<std::optional<std::uint64_t>> load(std::uint32_t threads, const visit& each) override;
  result<void> clear() override;
  result<void> commit_now(const offset_index_batch& batch) override;
  void commit(offset_index_batch batch, std::function<void()> wake) override;
  std::optional<result<void>> committed() override;

private:
  result<void> add(const offset_index_batch& batch);
  result<void> take_away(const offset_index_batch& batch);
  result<void> create(const std::string& group, const std::string& name);
  result<void> remove_but(const std::string& group, const std::string& kept);

  disk_io& io_;
  /// Names of the index's files by what they record: a key, or the next sequence.
  std::map<std::string, std::set<std::string>> names_;
  std::optional<offset_index_batch> batch_;
  std::optional<result<void>> added_;
  std::function<void()> wake_;
};

} // namespace peercache::storage
