#include "kubelet/prepared_claims.h"

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <limits>
#include <ranges>
#include <sstream>

#include "agent/waiting.h"
#include "base/log.h"
#include "kube/action.h"
#include "kube/json_view.h"
#include "kube/object_names.h"
#include "kube/request_annotation.h"

namespace divvy::kubelet {
namespace {

using namespace std::chrono_literals;

// The kubelet waits 45 s for an answer.
constexpr auto kLongest = 40s;
// An agent may be away for the time of an upgrade, in which its image is pulled and the one before
// ends: programs that start meanwhile wait for it.
constexpr std::uint32_t kSocketWaitSeconds = 60;
constexpr const char* kNamePrefix = "claim-";

// A request's name as part of others: that of a choice among several has a slash in it.
std::string plain(std::string text) {
  for (char& c : text) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!good && c != '-') c = '.';
  }
  while (!text.empty() && (text.back() == '.' || text.back() == '-')) text.pop_back();
  return text;
}

std::string device_of(const ClaimRecord& record, const std::string& request) {
  return fmt::format("{}-{}", record.uid, plain(request));
}

// By which the slices of a claim are known when the record is lost.
std::string command_of(const ClaimRecord& record, const std::string& request) {
  return fmt::format("{}/{} {} {}{}", record.space, record.name, record.uid, request,
                     record.by_slots ? " slots" : "");
}

bool is_of_claim(const agent::HeldSlices& held) {
  return held.holder == model::Holder::kSlice && held.name.starts_with(kNamePrefix) &&
         !held.slices.empty();
}

// What was granted may have been carried out although nobody heard of it.
bool is_unsure(const Error& error) {
  return error.code == ErrorCode::kTimeout || error.code == ErrorCode::kUnavailable;
}

bool same_slices(const ClaimRecord& a, const ClaimRecord& b) {
  const auto first = requests_of(a);
  const auto second = requests_of(b);
  return a.job_class == b.job_class && a.mode == b.mode &&
         std::ranges::equal(first, second, [](const auto& one, const auto& other) {
           return one.request == other.request && one.slices == other.slices;
         });
}

}  // namespace

class PreparedClaims::OneAtATime {
 public:
  OneAtATime(PreparedClaims& claims, std::string uid) : claims_(claims), uid_(std::move(uid)) {
    std::unique_lock lock(claims_.busy_mutex_);
    claims_.busy_changed_.wait(lock, [this] { return claims_.busy_.insert(uid_).second; });
  }
  ~OneAtATime() {
    const std::lock_guard lock(claims_.busy_mutex_);
    claims_.busy_.erase(uid_);
    claims_.busy_changed_.notify_all();
  }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;

 private:
  PreparedClaims& claims_;
  const std::string uid_;
};

// --- At the start ---

Result<std::unique_ptr<PreparedClaims>> PreparedClaims::create(Parts parts) {
  DIVVY_TRY(listing, agent::ask_and_wait(parts.agent, agent::ListOrder{}, kLongest));
  auto records = ClaimRecords::open(parts.disk);
  if (!records && records.error().code == ErrorCode::kDataLoss) {
    log_error("the record of claims is made anew from the ledger",
              {{"reason", records.error().message}});
    records = ClaimRecords::start_anew(parts.disk);
  }
  if (!records) return err(std::move(records).error());
  std::unique_ptr<PreparedClaims> made(new PreparedClaims(parts, *std::move(records)));
  made->recover(listing);
  parts.view.set_first_state(listing.state);
  return made;
}

void PreparedClaims::recover(const agent::Listing& listing) {
  std::set<model::MemberKey> held;
  for (const agent::HeldSlices& one : listing.held) {
    held.insert(one.key);
    records_.skip_numbers_to(one.key.job.value() + 1);
  }
  adopt(listing.held);
  std::set<std::string> published;
  const auto before = records_.all();
  for (const auto& [uid, record] : before) {
    const auto requests = requests_of(record);
    const auto is_held = [&held](const RequestedSlices& one) { return held.contains(one.key); };
    if (std::ranges::none_of(requests, is_held)) {
      // It ended before anything was granted, or after everything was released.
      if (const Status forgotten = records_.remove(uid); !forgotten) {
        log_error("the record of a claim stays", {{"reason", forgotten.error().message}});
      }
      continue;
    }
    // Otherwise the kubelet's next call goes on with it.
    if (!std::ranges::all_of(requests, is_held)) continue;
    // What its slots were called went with a record that was lost; the file may still say it.
    if (record.by_slots && record.slots.empty()) {
      published.insert(uid);
      continue;
    }
    auto devices = grant(record);
    const Status shown = devices ? parts_.devices.publish(*devices) : Status(err(devices.error()));
    if (shown) {
      published.insert(uid);
      log_info("claim found again", {{"claim", record.space + "/" + record.name}, {"uid", uid}});
    } else {
      log_error("the devices of a claim are not as they should be",
                {{"claim", record.space + "/" + record.name}, {"reason", shown.error().message}});
    }
  }
  if (const Status kept = parts_.devices.keep_only(published); !kept) {
    log_error("devices of claims that ended stay", {{"reason", kept.error().message}});
  }
  show();
}

// Slices without a record, because that was lost.
void PreparedClaims::adopt(const std::vector<agent::HeldSlices>& held) {
  std::set<std::uint64_t> known;
  for (const auto& [uid, record] : records_.all()) known.insert(record.number);
  std::map<model::MemberKey, const agent::HeldSlices*> lost;
  for (const agent::HeldSlices& one : held) {
    if (is_of_claim(one) && !known.contains(one.key.job.value())) lost.emplace(one.key, &one);
  }
  std::map<std::uint64_t, ClaimRecord> found;
  for (const auto& [key, one] : lost) {
    std::istringstream words(one->command);
    std::string name;
    std::string uid;
    std::string request;
    std::string way;
    words >> name >> uid >> request >> way;
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || request.empty()) continue;
    ClaimRecord& record = found[key.job.value()];
    record.number = key.job.value();
    record.uid = uid;
    record.space = name.substr(0, slash);
    record.name = name.substr(slash + 1);
    record.job_class = one->job_class;
    record.by_slots = way == "slots";
    if (record.by_slots) record.pod = record.name;
    // How a device is called is learnt from the claim when it is asked for again.
    for (const model::Slice& slice : one->slices) record.slices.push_back({request, "", slice});
  }
  for (auto& [number, record] : found) {
    log_warning("slices of a claim without a record",
                {{"claim", record.space + "/" + record.name}, {"uid", record.uid}});
    if (const Status put = records_.put(std::move(record)); !put) {
      log_error("a claim is not remembered", {{"reason", put.error().message}});
    }
  }
}

// --- Preparing ---

Result<ClaimRecord> PreparedClaims::read_claim(const ClaimName& claim) const {
  const std::string& node = parts_.view.node();
  DIVVY_TRY(document,
            parts_.api.get(fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}",
                                       claim.space, claim.name)));
  if (kube::text_at(document, {"metadata", "uid"}) != claim.uid) {
    return err(ErrorCode::kNotFound, "the claim was deleted, and there is another of its name");
  }
  DIVVY_TRY(allocation, kube::read_allocation(document));
  if (!allocation) {
    return err(ErrorCode::kFailedPrecondition,
               "nothing of {} is allocated to the claim; the controller of Divvy does that",
               kube::kDriver);
  }
  if (allocation->node != node) {
    return err(ErrorCode::kFailedPrecondition, "the claim is allocated on {} and this is {}",
               allocation->node, node);
  }
  ClaimRecord record{.uid = claim.uid, .space = claim.space, .name = claim.name};
  record.slices = std::move(allocation->slices);
  record.job_class = allocation->job_class;
  record.mode = allocation->mode;
  for (const boost::json::value& one : kube::array_at(document, {"status", "reservedFor"})) {
    if (one.is_object() && kube::text_at(one.get_object(), {"resource"}) == "pods") {
      record.pod = kube::text_at(one.get_object(), {"name"});
      break;
    }
  }
  return record;
}

Result<ClaimRecord> PreparedClaims::read_pod(const SlotHolder& holder,
                                             const std::vector<std::string>& slots) const {
  const std::string& node = parts_.view.node();
  DIVVY_TRY(pod, parts_.api.get(kube::pod_path(holder.space, holder.pod)));
  if (kube::text_at(pod, {"spec", "nodeName"}) != node) {
    return err(ErrorCode::kFailedPrecondition, "pod {}/{} is not bound to {}", holder.space,
               holder.pod, node);
  }
  DIVVY_TRY(request, kube::annotated_request(pod));
  if (!request || request->way != kube::Way::kSlots) {
    return err(ErrorCode::kFailedPrecondition,
               "pod {}/{} has slots and has not asked for slices; Divvy's webhook has not seen it",
               holder.space, holder.pod);
  }
  DIVVY_TRY(allocation, kube::read_allocation_annotation(pod));
  if (!allocation) {
    return err(ErrorCode::kFailedPrecondition,
               "pod {}/{} was given no slices yet; the controller of Divvy does that", holder.space,
               holder.pod);
  }
  if (allocation->node != node) {
    return err(ErrorCode::kFailedPrecondition, "pod {}/{} was given slices of {} and this is {}",
               holder.space, holder.pod, allocation->node, node);
  }
  // Init containers use the slice of the first of the others.
  std::string container = holder.container;
  if (std::ranges::find(request->init_containers, container) != request->init_containers.end()) {
    container = request->containers.front();
  }
  if (std::ranges::find(allocation->slices, container, &kube::AllocatedSlice::request) ==
      allocation->slices.end()) {
    return err(ErrorCode::kFailedPrecondition, "container {} of pod {}/{} was given no slice",
               holder.container, holder.space, holder.pod);
  }
  ClaimRecord record{.uid = std::string(kube::text_at(pod, {"metadata", "uid"})),
                     .space = holder.space,
                     .name = holder.pod,
                     .pod = holder.pod};
  record.slices = std::move(allocation->slices);
  record.job_class = allocation->job_class;
  record.mode = allocation->mode;
  record.by_slots = true;
  for (const std::string& slot : slots) record.slots.emplace(slot, container);
  return record;
}

// The record, on the disk.
Result<ClaimRecord> PreparedClaims::remember(ClaimRecord wanted, bool& is_new) {
  const std::lock_guard lock(records_mutex_);
  const ClaimRecord* const before = records_.find(wanted.uid);
  is_new = before == nullptr;
  if (before != nullptr && !same_slices(*before, wanted)) {
    return err(ErrorCode::kFailedPrecondition,
               "the claim was prepared with other slices before, and they are not released yet");
  }
  wanted.number = before != nullptr ? before->number : records_.next_number();
  if (before != nullptr) wanted.slots.insert(before->slots.begin(), before->slots.end());
  if (before != nullptr && *before == wanted) return wanted;
  DIVVY_RETURN_IF_ERROR(with_context(records_.put(wanted), "the claim cannot be remembered"));
  return wanted;
}

// How the container runtime is asked for the slices of a request.
std::vector<std::string> PreparedClaims::devices_of(const ClaimRecord& record,
                                                    const std::string& request) const {
  if (!record.by_slots) return {device_of(record, request)};
  std::vector<std::string> devices;
  const std::lock_guard lock(records_mutex_);
  for (const auto& [slot, container] : record.slots) {
    if (container != request) continue;
    // A slot that an init container had before has two names, and nobody says which of them starts.
    for (const std::uint64_t number : records_.slot_numbers(slot)) {
      devices.push_back(fmt::format("{}-{}", slot, number));
    }
  }
  return devices;
}

// All of its slices, granted now or before.
Result<inject::ClaimedSlices> PreparedClaims::grant(const ClaimRecord& record) {
  inject::ClaimedSlices claim{.uid = record.uid, .devices = {}, .slots = record.by_slots};
  for (const RequestedSlices& one : requests_of(record)) {
    agent::GrantOrder order{.key = one.key, .holder = model::Holder::kSlice};
    order.slices = one.slices;
    order.mode = record.mode;
    order.job_class = record.job_class;
    order.name = fmt::format("{}{}.{}", kNamePrefix, record.number, plain(one.request));
    order.command = command_of(record, one.request);
    DIVVY_TRY(granted, agent::ask_and_wait(parts_.agent, std::move(order), kLongest));
    const std::filesystem::path socket = granted.environment["DIVVY_SOCKET"];
    inject::HeldSlice held{.name = {},
                           .socket_folder = socket.parent_path(),
                           .socket_name = socket.filename().string(),
                           .gpus = {},
                           .socket_wait_seconds = kSocketWaitSeconds};
    for (const model::Slice& slice : one.slices) held.gpus.push_back(slice.gpu());
    for (std::string& device : devices_of(record, one.request)) {
      held.name = std::move(device);
      claim.devices.push_back(held);
    }
  }
  return claim;
}

// No other call for it is under way.
Result<ClaimRecord> PreparedClaims::prepare_record(ClaimRecord wanted) {
  bool is_new = false;
  DIVVY_TRY(record, remember(std::move(wanted), is_new));
  auto devices = grant(record);
  if (!devices) {
    // Nobody can have used what was granted for this call: it was never shown.
    if (is_new && !is_unsure(devices.error()) && release(record)) (void)forget(record.uid);
    show();
    return err(std::move(devices).error());
  }
  show();
  DIVVY_RETURN_IF_ERROR(parts_.devices.publish(*devices));
  return record;
}

Result<std::vector<PreparedDevice>> PreparedClaims::prepare(const ClaimName& claim) {
  const OneAtATime alone(*this, claim.uid);
  DIVVY_TRY(wanted, read_claim(claim));
  DIVVY_TRY(record, prepare_record(std::move(wanted)));
  std::vector<PreparedDevice> prepared;
  for (const kube::AllocatedSlice& one : record.slices) {
    prepared.push_back(
        {one.request, parts_.view.node(), one.device,
         inject::ContainerDevices::claim_device_name(device_of(record, one.request))});
  }
  return prepared;
}

Status PreparedClaims::prepare_container(const SlotHolder& holder,
                                         const std::vector<std::string>& slots) {
  // Should it end before it is alone, whoever looks for pods that ended finds it again.
  DIVVY_TRY(wanted, read_pod(holder, slots));
  const OneAtATime alone(*this, wanted.uid);
  const auto prepared = prepare_record(std::move(wanted));
  return prepared ? Status() : Status(err(prepared.error()));
}

Result<std::string> PreparedClaims::name_slot(const std::string& slot) {
  const std::lock_guard lock(records_mutex_);
  for (const auto& [uid, record] : records_.all()) {
    if (!record.slots.contains(slot)) continue;
    return err(ErrorCode::kFailedPrecondition, "{} is still held for pod {}/{}", slot, record.space,
               record.pod);
  }
  DIVVY_TRY(number, with_context(records_.number_slot(slot), "the slot cannot be remembered"));
  return inject::ContainerDevices::slot_device_name(fmt::format("{}-{}", slot, number));
}

std::vector<ClaimRecord> PreparedClaims::slot_pods() const {
  const std::lock_guard lock(records_mutex_);
  std::vector<ClaimRecord> pods;
  for (const auto& [uid, record] : records_.all()) {
    if (record.by_slots) pods.push_back(record);
  }
  return pods;
}

std::uint64_t PreparedClaims::last_use(const std::string& slot) const {
  const std::lock_guard lock(records_mutex_);
  for (const auto& [uid, record] : records_.all()) {
    if (record.slots.contains(slot)) return std::numeric_limits<std::uint64_t>::max();
  }
  const auto numbers = records_.slot_numbers(slot);
  return numbers.empty() ? 0 : numbers.back();
}

// --- Unpreparing ---

// The last request first, as they were granted the first one first: so what is still held, should
// this end here and the record be lost, are its first requests, and adopt() gives them their ranks.
Status PreparedClaims::release(const ClaimRecord& record) {
  const std::vector<RequestedSlices> requests = requests_of(record);
  for (const RequestedSlices& one : requests | std::views::reverse) {
    DIVVY_RETURN_IF_ERROR(
        agent::ask_and_wait(parts_.agent, agent::ReleaseOrder{one.key}, kLongest));
  }
  return {};
}

Status PreparedClaims::unprepare(const ClaimName& claim) {
  const OneAtATime alone(*this, claim.uid);
  const std::optional<ClaimRecord> record = find(claim.uid);
  if (!record) return {};
  DIVVY_RETURN_IF_ERROR(parts_.devices.withdraw(claim.uid));
  DIVVY_RETURN_IF_ERROR(release(*record));
  Status forgotten;
  {
    const std::lock_guard lock(records_mutex_);
    forgotten = records_.remove_with_slots(claim.uid);
  }
  show();
  return forgotten;
}

Status PreparedClaims::forget(const std::string& uid) {
  const std::lock_guard lock(records_mutex_);
  return records_.remove(uid);
}

std::optional<ClaimRecord> PreparedClaims::find(const std::string& uid) const {
  const std::lock_guard lock(records_mutex_);
  const ClaimRecord* const found = records_.find(uid);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

void PreparedClaims::show() {
  const std::lock_guard lock(records_mutex_);
  parts_.view.set_claims(records_.all());
}

}  // namespace divvy::kubelet
