// A file of records that survives whatever happens to the process, the machine and the disk: the
// first records are a snapshot, the others were appended one by one. docs/ledger.md has the format.
//
// What was never acknowledged may be cut from the end after a crash. Anything else that cannot be
// read is damage and is said, never skipped.
//
// scan_journal() is pure. A Journal belongs to one thread at a time and is its file's only writer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sys/disk.h"

namespace divvy::ledger {

struct JournalRecord {
  std::uint64_t offset = 0;    // Of its first byte in the file
  std::uint64_t sequence = 0;  // One more than that of the record before
  std::string_view payload;
};

struct JournalScan {
  struct Damage {
    std::uint64_t offset = 0;
    std::string reason;
  };

  std::vector<JournalRecord> records;  // The good ones from the start; they point into the bytes
  std::uint64_t snapshot_records = 0;  // The first so many are the snapshot
  std::uint64_t good_bytes = 0;        // Up to the end of the last good record
  std::uint64_t torn_bytes = 0;        // Behind them: of writes that were never acknowledged
  std::uint64_t next_sequence = 1;
  std::optional<Damage> damage;
};

// Reads any bytes.
[[nodiscard]] JournalScan scan_journal(std::string_view bytes);

class Journal {
 public:
  enum class Sync {
    kNow,    // On the disk when append() returns
    kLater,  // Survives the process at once, and a loss of power with the next kNow
  };

  // One of fewer bytes is not worth replacing.
  static constexpr std::uint64_t kShort = std::uint64_t{1} << 20;

  // Only reads; what was found is for the caller to judge, and empty where there is no file. The
  // file of an earlier daemon is never appended to: nobody knows whether a sync had failed before
  // that one died. The journal must be replaced first. `disk` outlives it.
  struct Opened;
  [[nodiscard]] static Result<Opened> open(sys::Disk& disk, std::string name,
                                           std::uint64_t short_bytes = kShort);

  // After a failure the record is not there, and the journal is as before or must be replaced.
  [[nodiscard]] Status append(std::string_view payload, Sync sync);

  // A sync in two halves, so that others may append meanwhile: begin_sync() and end_sync() belong
  // to the journal's owner, the sync of the file in between is anybody's. Only one at a time, and
  // none of append() meanwhile: of two syncs, only one hears of a failure that is of both.
  struct Syncing {
    std::shared_ptr<sys::DiskFile> file;
    std::uint64_t sequence = 0;  // Everything up to it will be on the disk
  };
  [[nodiscard]] Syncing begin_sync() const { return {file_, last_sequence()}; }
  void end_sync(const Syncing& syncing, bool worked);

  // Writes a new file with `snapshot` as its records and puts it in the place of the old one. After
  // a failure the old one goes on if it was good, or the journal must (still) be replaced.
  [[nodiscard]] Status replace(std::span<const std::string> snapshot);

  // The file cannot be trusted or is not there; append() refuses.
  [[nodiscard]] bool must_be_replaced() const { return file_ == nullptr; }
  [[nodiscard]] std::uint64_t last_sequence() const { return next_sequence_ - 1; }
  // Everything up to this one is on the disk.
  [[nodiscard]] std::uint64_t synced_sequence() const { return synced_sequence_; }
  // More was appended than the snapshot has: replacing it would be worth while.
  [[nodiscard]] bool is_long() const { return size_ > longest_; }

 private:
  Journal(sys::Disk& disk, std::string name, std::uint64_t short_bytes)
      : disk_(&disk), name_(std::move(name)), short_(short_bytes), longest_(short_bytes) {}

  // What is in the file can no longer be known.
  void give_up() { file_.reset(); }

  sys::Disk* disk_;
  std::string name_;
  std::uint64_t short_;
  std::uint64_t longest_;                // Where the next replacement is due
  std::shared_ptr<sys::DiskFile> file_;  // Null: must be replaced
  std::uint64_t size_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t synced_sequence_ = 0;
};

struct Journal::Opened {
  Journal journal;
  std::string bytes;
  JournalScan scan;  // Points into `bytes`
};

}  // namespace divvy::ledger
