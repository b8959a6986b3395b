#include "ledger/ledger_report.h"

#include <boost/json.hpp>

#include "ledger/ledger.h"
#include "sys/process.h"

namespace divvy::ledger {
namespace {

namespace json = boost::json;

json::object slice_document(const model::Slice& slice) {
  return {{"gpu", slice.gpu().str()},
          {"memoryBytes", slice.memory().count()},
          {"shareThousandths", slice.share().thousandths()},
          {"capped", slice.kind() == model::ShareKind::kCap}};
}

json::object tenant_document(const TenantRecord& record) {
  json::array slices;
  for (const model::Slice& slice : record.slices) slices.push_back(slice_document(slice));
  return {{"id", record.id.value()},
          {"name", record.name},
          {"holder", to_string(record.holder)},
          {"job", record.member.job.value()},
          {"user", sys::user_name(record.uid)},
          {"uid", record.uid},
          {"pid", has_root(record) ? json::value(record.root.pid) : json::value(nullptr)},
          {"sinceUnix", record.since_unix},
          {"class", to_string(record.tenant_class)},
          {"mode", to_string(record.mode)},
          {"command", record.command},
          {"slices", std::move(slices)}};
}

json::array cordon_documents(const LedgerState& state) {
  json::array cordons;
  for (const auto& [gpu, cordon] : state.cordons) {
    cordons.push_back({{"gpu", gpu.str()},
                       {"reason", cordon.reason},
                       {"draining", cordon.draining},
                       {"sinceUnix", cordon.since_unix}});
  }
  return cordons;
}

}  // namespace

Result<std::string> ledger_document(const std::filesystem::path& state_folder) {
  const std::unique_ptr<sys::Disk> disk = sys::open_disk(state_folder);
  std::string bytes;
  JournalScan scan;
  // A daemon may be in the middle of a record; then the next look finds the end of it.
  for (int look = 0; look < 3; ++look) {
    auto read = disk->read(kLedgerFile);
    if (!read && read.error().code == ErrorCode::kNotFound) {
      return err(ErrorCode::kNotFound,
                 "there is no ledger in {}; no divvyd has kept one there. Name the folder that it "
                 "uses with --state-dir or DIVVY_STATE_DIR",
                 state_folder.string());
    }
    if (!read) return err(std::move(read).error());
    bytes = *std::move(read);
    scan = scan_journal(bytes);
    if (scan.torn_bytes == 0 && !scan.damage) break;
  }
  const Replay replayed = replay(scan);

  json::array tenants;
  for (const auto& [id, record] : replayed.state.tenants) {
    tenants.push_back(tenant_document(record));
  }
  json::object document{{"apiVersion", "divvy/v1"},
                        {"kind", "Ledger"},
                        {"file", disk->path(kLedgerFile).string()},
                        {"bytes", bytes.size()},
                        {"records", scan.records.size()},
                        {"snapshotRecords", scan.snapshot_records},
                        {"lastSequence", scan.next_sequence - 1},
                        {"tornBytes", scan.torn_bytes},
                        {"tornOffset", scan.good_bytes},
                        {"damage", nullptr},
                        {"currentBoot", replayed.state.boot == sys::boot_id()},
                        {"nextId", replayed.state.next_id.value()},
                        {"tenants", std::move(tenants)},
                        {"cordons", cordon_documents(replayed.state)}};
  if (scan.torn_bytes == 0) document["tornOffset"] = nullptr;
  if (replayed.damage) {
    document["damage"] = {{"offset", replayed.damage->offset}, {"reason", replayed.damage->reason}};
  }
  return json::serialize(document);
}

}  // namespace divvy::ledger
