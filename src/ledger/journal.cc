#include "ledger/journal.h"

#include <algorithm>
#include <boost/crc.hpp>

namespace divvy::ledger {
namespace {

constexpr std::string_view kMagic = "DIVVYLOG";
constexpr std::uint32_t kFormat = 1;
constexpr std::size_t kHeaderBytes = 40;
constexpr std::size_t kRecordHeaderBytes = 24;
// No record is larger; a length beyond it is garbage.
constexpr std::uint32_t kLargestPayload = 16U << 20U;

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

template <typename T>
void put(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes += static_cast<char>((value >> (8 * i)) & 0xffU);
  }
}

// `bytes` are long enough.
template <typename T>
T get(std::string_view bytes, std::size_t offset) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |=
        static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i));
  }
  return value;
}

// magic, format, checksum of all but itself, first sequence, records of the snapshot, nothing yet
std::string header(std::uint64_t first_sequence, std::uint64_t snapshot_records) {
  std::string rest;
  put(rest, first_sequence);
  put(rest, snapshot_records);
  put(rest, std::uint64_t{0});
  std::string start(kMagic);
  put(start, kFormat);
  std::string bytes = start;
  put(bytes, crc32c(start + rest));
  return bytes + rest;
}

// length, checksum of all but itself, sequence, what was synced when it was written, payload
std::string record(std::uint64_t sequence, std::uint64_t synced, std::string_view payload) {
  std::string length;
  put(length, static_cast<std::uint32_t>(payload.size()));
  std::string rest;
  rest.reserve(kRecordHeaderBytes + payload.size());
  put(rest, sequence);
  put(rest, synced);
  rest += payload;
  std::string bytes = length;
  bytes.reserve(kRecordHeaderBytes + payload.size());
  put(bytes, crc32c(length + rest));
  return bytes + rest;
}

struct Parsed {
  std::uint64_t sequence = 0;
  std::uint64_t synced = 0;
  std::string_view payload;
  [[nodiscard]] std::size_t size() const { return kRecordHeaderBytes + payload.size(); }
};

// The record at the start of `bytes`, if that is what it is.
std::optional<Parsed> parse_record(std::string_view bytes) {
  if (bytes.size() < kRecordHeaderBytes) return std::nullopt;
  const auto length = get<std::uint32_t>(bytes, 0);
  if (length == 0 || length > kLargestPayload || length > bytes.size() - kRecordHeaderBytes) {
    return std::nullopt;
  }
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), 4);
  crc.process_bytes(bytes.data() + 8, kRecordHeaderBytes - 8 + length);
  if (crc.checksum() != get<std::uint32_t>(bytes, 4)) return std::nullopt;
  return Parsed{get<std::uint64_t>(bytes, 8), get<std::uint64_t>(bytes, 16),
                bytes.substr(kRecordHeaderBytes, length)};
}

// Is there a record behind the start of `bytes` that was written when `sequence` was on the disk
// already? Then what cannot be read at the start was acknowledged once.
bool was_acknowledged(std::string_view bytes, std::uint64_t sequence) {
  const std::uint64_t most = bytes.size() / kRecordHeaderBytes;
  for (std::size_t at = 1; at + kRecordHeaderBytes <= bytes.size(); ++at) {
    // Two comparisons before the checksum, because nearly every place is none.
    const auto here = get<std::uint64_t>(bytes, at + 8);
    if (here <= sequence || here - sequence > most) continue;
    const auto synced = get<std::uint64_t>(bytes, at + 16);
    if (synced < sequence || synced >= here) continue;
    if (parse_record(bytes.substr(at))) return true;
  }
  return false;
}

std::optional<std::string> header_fault(std::string_view bytes) {
  if (bytes.empty()) return "the file is empty";
  if (bytes.size() < kHeaderBytes || !bytes.starts_with(kMagic)) {
    return "this is not the beginning of a ledger";
  }
  // Before the checksum, because another format may have another header.
  if (const auto format = get<std::uint32_t>(bytes, 8); format != kFormat) {
    return fmt::format("it has format {} and this version of Divvy reads format {}", format,
                       kFormat);
  }
  std::string checked(bytes.substr(0, 12));
  checked += bytes.substr(16, kHeaderBytes - 16);
  if (crc32c(checked) != get<std::uint32_t>(bytes, 12)) return "the header's checksum is wrong";
  return std::nullopt;
}

}  // namespace

JournalScan scan_journal(std::string_view bytes) {
  JournalScan scan;
  if (auto fault = header_fault(bytes)) {
    scan.damage = {0, *std::move(fault)};
    return scan;
  }
  scan.next_sequence = get<std::uint64_t>(bytes, 16);
  scan.snapshot_records = get<std::uint64_t>(bytes, 24);
  scan.good_bytes = kHeaderBytes;
  while (scan.good_bytes < bytes.size()) {
    const std::string_view rest = bytes.substr(scan.good_bytes);
    const auto parsed = parse_record(rest);
    if (parsed && parsed->sequence != scan.next_sequence) {
      scan.damage = {scan.good_bytes, fmt::format("record {} stands where {} should",
                                                  parsed->sequence, scan.next_sequence)};
      return scan;
    }
    if (!parsed) {
      // The snapshot was synced before the file got its name.
      if (scan.records.size() < scan.snapshot_records ||
          was_acknowledged(rest, scan.next_sequence)) {
        scan.damage = {scan.good_bytes,
                       fmt::format("record {} cannot be read", scan.next_sequence)};
      } else {
        scan.torn_bytes = rest.size();
      }
      return scan;
    }
    scan.records.push_back({scan.good_bytes, parsed->sequence, parsed->payload});
    scan.good_bytes += parsed->size();
    ++scan.next_sequence;
  }
  if (scan.records.size() < scan.snapshot_records) {
    scan.damage = {scan.good_bytes, "the file ends before its snapshot does"};
  }
  return scan;
}

Result<Journal::Opened> Journal::open(sys::Disk& disk, std::string name,
                                      std::uint64_t short_bytes) {
  Journal journal(disk, std::move(name), short_bytes);
  auto bytes = disk.read(journal.name_);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) {
    return Opened{std::move(journal), {}, {}};
  }
  if (!bytes) return err(std::move(bytes).error());
  JournalScan scan = scan_journal(*bytes);
  journal.next_sequence_ = scan.next_sequence;
  return Opened{std::move(journal), *std::move(bytes), std::move(scan)};
}

Status Journal::append(std::string_view payload, Sync sync) {
  if (payload.empty() || payload.size() > kLargestPayload) {
    return err(ErrorCode::kOutOfRange, "a record of {} bytes cannot be written", payload.size());
  }
  if (!file_) {
    return err(ErrorCode::kFailedPrecondition, "{} has to be written anew first",
               disk_->path(name_).string());
  }
  const std::string bytes = record(next_sequence_, synced_sequence_, payload);
  if (Status written = file_->append(bytes); !written) {
    // Back to where the last record ends. What is cut off but comes back after a loss of power is
    // behind everything that was acknowledged.
    if (!file_->truncate(size_)) give_up();
    return written;
  }
  if (sync == Sync::kNow) {
    if (Status synced = file_->sync(); !synced) {
      give_up();
      return synced;
    }
    synced_sequence_ = next_sequence_;
  }
  size_ += bytes.size();
  ++next_sequence_;
  return {};
}

void Journal::end_sync(const Syncing& syncing, bool worked) {
  // It has been replaced since, by a file that has everything.
  if (file_ != syncing.file) return;
  if (worked) {
    synced_sequence_ = std::max(synced_sequence_, syncing.sequence);
  } else {
    give_up();
  }
}

Status Journal::replace(std::span<const std::string> snapshot) {
  const std::string temporary = name_ + ".new";
  std::string bytes = header(next_sequence_, snapshot.size());
  std::uint64_t sequence = next_sequence_;
  for (const std::string& payload : snapshot) {
    bytes += record(sequence, sequence - 1, payload);
    ++sequence;
  }
  const auto write = [&]() -> Result<std::unique_ptr<sys::DiskFile>> {
    DIVVY_TRY(file, disk_->create(temporary));
    DIVVY_RETURN_IF_ERROR(file->append(bytes));
    DIVVY_RETURN_IF_ERROR(file->sync());
    return file;
  };
  // A replacement that was due and failed is not tried with every record that follows.
  longest_ = std::max(longest_, 2 * size_);
  auto file = write();
  if (!file) {
    // Half a file takes up space that there may be none of.
    (void)disk_->remove(temporary);
    return err(std::move(file).error());
  }
  // From here until the folder is synced nobody knows which of the two files a loss of power would
  // leave, so nothing may be appended to either.
  give_up();
  DIVVY_RETURN_IF_ERROR(disk_->rename(temporary, name_));
  DIVVY_RETURN_IF_ERROR(disk_->sync_folder());
  file_ = *std::move(file);
  size_ = bytes.size();
  longest_ = std::max(short_, 2 * size_);
  next_sequence_ = sequence;
  synced_sequence_ = sequence - 1;
  return {};
}

}  // namespace divvy::ledger
