#include "kubelet/claim_record.h"

#include <algorithm>
#include <boost/json.hpp>

#include "kube/json_view.h"

namespace divvy::kubelet {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kVersion = 1;
// Deeper than anything that is written here.
constexpr std::size_t kMostDepth = 16;
// Of a slot that is given again and again to pods that never start.
constexpr std::size_t kMostNumbers = 8;

tl::unexpected<Error> damaged(std::string_view what) {
  return err(ErrorCode::kDataLoss, "the record of claims has no right {}", what);
}

json::object write_claim(const ClaimRecord& record) {
  json::array slices;
  for (const kube::AllocatedSlice& one : record.slices) {
    slices.push_back(json::object{
        {"request", one.request},
        {"slice", kube::write_slice({one.device, one.slice, record.job_class, record.mode})}});
  }
  json::object object{{"uid", record.uid},
                      {"namespace", record.space},
                      {"name", record.name},
                      {"pod", record.pod},
                      {"number", record.number},
                      {"class", to_string(record.job_class)},
                      {"mode", to_string(record.mode)},
                      {"slices", std::move(slices)}};
  if (record.by_slots) {
    json::object slots;
    for (const auto& [slot, container] : record.slots) slots[slot] = container;
    object["slots"] = std::move(slots);
  }
  return object;
}

Result<ClaimRecord> read_claim(const json::object& object) {
  ClaimRecord record;
  record.uid = kube::text_at(object, {"uid"});
  record.space = kube::text_at(object, {"namespace"});
  record.name = kube::text_at(object, {"name"});
  record.pod = kube::text_at(object, {"pod"});
  const auto number = kube::number_at(object, {"number"});
  if (record.uid.empty()) return damaged("uid");
  if (!number) return damaged("number");
  record.number = *number;
  DIVVY_TRY(job_class, model::parse_job_class(kube::text_at(object, {"class"})));
  DIVVY_TRY(mode, model::parse_gpu_mode(kube::text_at(object, {"mode"})));
  record.job_class = job_class;
  record.mode = mode;
  for (const json::value& one : kube::array_at(object, {"slices"})) {
    if (!one.is_object()) return damaged("slice");
    DIVVY_TRY(slice, kube::read_slice(kube::object_at(one.get_object(), {"slice"})));
    record.slices.push_back({std::string(kube::text_at(one.get_object(), {"request"})),
                             std::move(slice.device), std::move(slice.slice)});
  }
  if (record.slices.empty()) return damaged("slices");
  if (const json::value* const slots = object.if_contains("slots")) {
    if (!slots->is_object()) return damaged("slots");
    record.by_slots = true;
    for (const auto& [slot, container] : slots->get_object()) {
      if (!container.is_string()) return damaged("slots");
      record.slots.emplace(slot, std::string(container.get_string()));
    }
  }
  return record;
}

}  // namespace

std::vector<RequestedSlices> requests_of(const ClaimRecord& record) {
  std::vector<RequestedSlices> requests;
  for (const kube::AllocatedSlice& one : record.slices) {
    auto found = std::ranges::find(requests, one.request, &RequestedSlices::request);
    if (found == requests.end()) {
      const auto rank = static_cast<std::uint32_t>(requests.size());
      requests.push_back({one.request, {model::JobId(record.number), 1, rank}, {}});
      found = requests.end() - 1;
    }
    found->slices.push_back(one.slice);
  }
  return requests;
}

std::string write_claims(const ClaimDocument& document) {
  json::array claims;
  for (const auto& [uid, record] : document.claims) claims.push_back(write_claim(record));
  json::object slots;
  for (const auto& [slot, numbers] : document.slot_numbers) {
    slots[slot] = json::array(numbers.begin(), numbers.end());
  }
  return json::serialize(json::object{{"version", kVersion},
                                      {"nextNumber", document.next_number},
                                      {"slotNumbers", std::move(slots)},
                                      {"claims", std::move(claims)}}) +
         "\n";
}

Result<ClaimDocument> read_claims(std::string_view text) {
  json::parse_options options;
  options.max_depth = kMostDepth;
  boost::system::error_code code;
  const json::value parsed = json::parse(text, code, {}, options);
  if (code || !parsed.is_object()) return damaged("form");
  const json::object& object = parsed.get_object();
  if (kube::number_at(object, {"version"}) != kVersion) return damaged("version");
  ClaimDocument document;
  document.next_number = kube::number_at(object, {"nextNumber"}).value_or(1);
  for (const json::value& one : kube::array_at(object, {"claims"})) {
    if (!one.is_object()) return damaged("claim");
    auto record = read_claim(one.get_object());
    if (!record) return err(ErrorCode::kDataLoss, "{}", record.error().message);
    document.next_number = std::max(document.next_number, record->number + 1);
    const std::string uid = record->uid;
    if (!document.claims.emplace(uid, *std::move(record)).second) return damaged("uid");
  }
  for (const auto& [slot, numbers] : kube::object_at(object, {"slotNumbers"})) {
    if (!numbers.is_array()) return damaged("slotNumbers");
    std::vector<std::uint64_t>& known = document.slot_numbers[slot];
    for (const json::value& one : numbers.get_array()) {
      boost::system::error_code wrong;
      const auto number = one.to_number<std::uint64_t>(wrong);
      if (wrong) return damaged("slotNumbers");
      known.push_back(number);
      document.next_number = std::max(document.next_number, number + 1);
    }
  }
  return document;
}

Result<ClaimRecords> ClaimRecords::open(sys::Disk& disk) {
  const auto text = disk.read(kFile);
  if (!text && text.error().code == ErrorCode::kNotFound) return ClaimRecords(disk, {});
  if (!text) return err(text.error());
  DIVVY_TRY(document, with_context(read_claims(*text), disk.path(kFile).string()));
  return ClaimRecords(disk, std::move(document));
}

Result<ClaimRecords> ClaimRecords::start_anew(sys::Disk& disk) {
  DIVVY_RETURN_IF_ERROR(disk.rename(kFile, std::string(kFile) + ".damaged"));
  ClaimRecords records(disk, {});
  DIVVY_RETURN_IF_ERROR(records.write());
  return records;
}

const ClaimRecord* ClaimRecords::find(const std::string& uid) const {
  const auto found = document_.claims.find(uid);
  return found == document_.claims.end() ? nullptr : &found->second;
}

void ClaimRecords::skip_numbers_to(std::uint64_t number) {
  document_.next_number = std::max(document_.next_number, number);
}

std::vector<std::uint64_t> ClaimRecords::slot_numbers(const std::string& slot) const {
  const auto found = document_.slot_numbers.find(slot);
  return found == document_.slot_numbers.end() ? std::vector<std::uint64_t>() : found->second;
}

Result<std::uint64_t> ClaimRecords::number_slot(const std::string& slot) {
  const std::uint64_t number = next_number();
  std::vector<std::uint64_t>& numbers = document_.slot_numbers[slot];
  numbers.push_back(number);
  if (numbers.size() > kMostNumbers) numbers.erase(numbers.begin());
  DIVVY_RETURN_IF_ERROR(write());
  return number;
}

Status ClaimRecords::put(ClaimRecord record) {
  const std::string uid = record.uid;
  const auto before = document_.claims.find(uid);
  std::optional<ClaimRecord> old;
  if (before != document_.claims.end()) old = before->second;
  document_.claims.insert_or_assign(uid, std::move(record));
  Status written = write();
  if (!written && old) document_.claims.insert_or_assign(uid, *std::move(old));
  if (!written && !old) document_.claims.erase(uid);
  return written;
}

Status ClaimRecords::remove(const std::string& uid) {
  auto taken = document_.claims.extract(uid);
  if (taken.empty()) return {};
  Status written = write();
  if (!written) document_.claims.insert(std::move(taken));
  return written;
}

Status ClaimRecords::remove_with_slots(const std::string& uid) {
  const ClaimRecord* const record = find(uid);
  if (record == nullptr) return {};
  auto numbers = document_.slot_numbers;
  for (const auto& [slot, container] : record->slots) document_.slot_numbers.erase(slot);
  Status removed = remove(uid);
  if (!removed) document_.slot_numbers = std::move(numbers);
  return removed;
}

Status ClaimRecords::write() {
  const std::string fresh = std::string(kFile) + ".new";
  DIVVY_TRY(file, disk_->create(fresh));
  DIVVY_RETURN_IF_ERROR(file->append(write_claims(document_)));
  DIVVY_RETURN_IF_ERROR(file->sync());
  DIVVY_RETURN_IF_ERROR(disk_->rename(fresh, kFile));
  return disk_->sync_folder();
}

}  // namespace divvy::kubelet
