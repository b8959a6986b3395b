// A disk in memory that breaks where a test wants it to: at the Nth operation, in the middle of a
// write, for lack of space, or by a loss of power, which leaves of everything that was not synced
// any part. As unkind as real disks are: what a failed sync was to save is lost, even when a later
// sync succeeds. Only for tests; one thread.
#pragma once

#include <map>
#include <optional>
#include <random>
#include <vector>

#include "sys/disk.h"

namespace divvy::sys {

class FakeDisk final : public Disk {
 public:
  FakeDisk() = default;

  enum class Fault {
    kError,  // The operation fails; of a write, some bytes arrive
    kCrash,  // The power goes in the middle of it, and every later operation fails
  };
  // The operation with this number, counted from 1 and from now. Only what changes the disk counts.
  // `part` chooses how much of it is done: bytes of a write, odd or even for the others.
  void fail_at(std::uint64_t operation, Fault fault, std::size_t part = 0);
  void work_again() { fault_at_.reset(); }
  // Did the operation of fail_at() come?
  [[nodiscard]] bool failed() const { return fault_at_ && operations_ >= *fault_at_; }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  [[nodiscard]] std::uint64_t syncs() const { return syncs_; }

  // For all files together; nothing: as much as anybody wants.
  void set_space(std::optional<std::uint64_t> bytes) { space_ = bytes; }
  // Nothing can be done any more until one of the next two.
  void stop() { off_ = true; }
  // What a loss of power leaves, as the dice decide; files that are open can no longer be written.
  void lose_power(std::mt19937& dice);
  // The process is killed: everything written is there.
  void kill_process();

  // As a test writes or reads it, past all faults. Durable.
  void put(std::string_view name, std::string bytes);
  [[nodiscard]] bool has(std::string_view name) const { return names_.contains(std::string(name)); }
  [[nodiscard]] std::string content(std::string_view name) const;

  std::filesystem::path path(std::string_view name) const override;
  Result<std::string> read(std::string_view name) const override;
  Result<std::unique_ptr<DiskFile>> create(std::string_view name) override;
  Status rename(std::string_view from, std::string_view to) override;
  Status remove(std::string_view name) override;
  Status sync_folder() override;

 private:
  friend class FakeFile;

  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  struct Inode {
    std::string content;  // As processes see it
    std::string synced;   // What certainly survives
    std::string ghost;    // What was there before it was cut
    std::vector<Range> lost;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  // What becomes of the next operation: it works, or how much of it is done before it fails.
  struct Verdict {
    bool works = true;
    std::size_t part = 0;
    Fault fault = Fault::kError;
  };
  Verdict next_operation();
  [[nodiscard]] std::uint64_t space_left() const;
  void folder_changed() { past_names_.push_back(names_); }
  static std::string after_power_loss(const Inode& inode, std::mt19937& dice);

  Names names_;
  Names synced_names_;
  std::vector<Names> past_names_;  // Since the last sync of the folder, in order
  std::optional<std::uint64_t> space_;
  std::optional<std::uint64_t> fault_at_;
  Fault fault_ = Fault::kError;
  std::size_t part_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t syncs_ = 0;
  std::uint64_t life_ = 0;  // Files that were opened in an earlier one are dead
  bool off_ = false;
};

}  // namespace divvy::sys
