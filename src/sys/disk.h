// One folder of files, as the ledger needs it: the seam between what is to be remembered and the
// disk that may be full, break or lose power. The fake (fake_disk.h) fails wherever a test wants.
//
// Nothing is locked here: whoever writes a file is its only writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::sys {

// A file that grows at its end.
class DiskFile {
 public:
  virtual ~DiskFile() = default;

  // After a failure any part of `bytes` may be in the file.
  [[nodiscard]] virtual Status append(std::string_view bytes) = 0;
  // Everything appended so far survives a loss of power. After a failure nobody can know what does,
  // and a second attempt that succeeds proves nothing: the kernel may have dropped the pages.
  [[nodiscard]] virtual Status sync() = 0;
  [[nodiscard]] virtual Status truncate(std::uint64_t size) = 0;
};

// Errors name the file. kPermissionDenied: this user may not, or nobody may (a read-only file
// system). kIo: anything else, with a word of advice where the disk is full.
class Disk {
 public:
  virtual ~Disk() = default;

  // For messages.
  [[nodiscard]] virtual std::filesystem::path path(std::string_view name) const = 0;

  // The whole file; kNotFound where there is none.
  [[nodiscard]] virtual Result<std::string> read(std::string_view name) const = 0;
  // An empty file, readable only by its owner; what had this name is gone.
  [[nodiscard]] virtual Result<std::unique_ptr<DiskFile>> create(std::string_view name) = 0;
  // Replaces `to` in one step. For good only after sync_folder().
  [[nodiscard]] virtual Status rename(std::string_view from, std::string_view to) = 0;
  // No error where there is none.
  [[nodiscard]] virtual Status remove(std::string_view name) = 0;
  [[nodiscard]] virtual Status sync_folder() = 0;
};

// The files of a folder that exists.
[[nodiscard]] std::unique_ptr<Disk> open_disk(std::filesystem::path folder);

}  // namespace divvy::sys
