// What the node agent remembers of every claim that it has prepared, or was about to prepare, and
// of pods that go by slots, which are prepared likewise: a file in the state folder that is there
// whole after any crash. A record is written before the first slice is granted for it and removed
// after the last was released, so whatever the ledger holds for a claim has a record.
//
// The document is safe to read from any bytes. ClaimRecords belongs to one thread at a time and is
// its file's only writer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/allocation.h"
#include "model/member_key.h"
#include "sys/disk.h"

namespace divvy::kubelet {

struct ClaimRecord {
  std::string uid = {};
  std::string space = {};  // its namespace
  std::string name = {};
  std::string pod = {};      // for which it is reserved; empty: nobody knows
  std::uint64_t number = 0;  // of this claim on this machine, never used again
  std::vector<kube::AllocatedSlice> slices = {};
  model::JobClass job_class = model::JobClass::kBatch;
  model::GpuMode mode = model::GpuMode::kTimeslice;
  // No claim but a pod that goes by slots: uid and name are the pod's, and a request is a
  // container.
  bool by_slots = false;
  std::map<std::string, std::string> slots =
      {};  // of containers that were started: slot → container
  friend bool operator==(const ClaimRecord&, const ClaimRecord&) = default;
};

// The slices of one request of a claim: one tenant, whichever containers use it.
struct RequestedSlices {
  std::string request;
  model::MemberKey key;  // by which the machine knows them
  std::vector<model::Slice> slices;
};
// In the order in which the claim has them; the rank in their keys is that order.
[[nodiscard]] std::vector<RequestedSlices> requests_of(const ClaimRecord& record);

struct ClaimDocument {
  std::uint64_t next_number = 1;
  std::map<std::string, ClaimRecord> claims = {};  // by uid
  // By slot: the numbers in the names that the kubelet was given for it since its last holder let
  // go.
  std::map<std::string, std::vector<std::uint64_t>> slot_numbers = {};
  friend bool operator==(const ClaimDocument&, const ClaimDocument&) = default;
};
[[nodiscard]] std::string write_claims(const ClaimDocument& document);
[[nodiscard]] Result<ClaimDocument> read_claims(std::string_view text);

class ClaimRecords {
 public:
  static constexpr const char* kFile = "claims.json";

  // kDataLoss: what is in the file cannot be read. `disk` outlives it.
  [[nodiscard]] static Result<ClaimRecords> open(sys::Disk& disk);
  // With none; the file that could not be read is kept beside it.
  [[nodiscard]] static Result<ClaimRecords> start_anew(sys::Disk& disk);

  [[nodiscard]] const std::map<std::string, ClaimRecord>& all() const { return document_.claims; }
  [[nodiscard]] const ClaimRecord* find(const std::string& uid) const;

  // A number that no claim has had, from here on for good with the next put().
  [[nodiscard]] std::uint64_t next_number() { return document_.next_number++; }
  void skip_numbers_to(std::uint64_t number);
  [[nodiscard]] std::vector<std::uint64_t> slot_numbers(const std::string& slot) const;

  // On the disk when they return success. After a failure nobody knows whether they are there.
  [[nodiscard]] Status put(ClaimRecord record);
  [[nodiscard]] Status remove(const std::string& uid);
  // The numbers of its slots, too: nobody starts by those names any more.
  [[nodiscard]] Status remove_with_slots(const std::string& uid);
  // A new number for the slot, of its own for good.
  [[nodiscard]] Result<std::uint64_t> number_slot(const std::string& slot);

 private:
  ClaimRecords(sys::Disk& disk, ClaimDocument document)
      : disk_(&disk), document_(std::move(document)) {}
  [[nodiscard]] Status write();

  sys::Disk* disk_;
  ClaimDocument document_;
};

}  // namespace divvy::kubelet
