#include "ledger/ledger_record.h"

#include <boost/json.hpp>
#include <limits>
#include <set>

#include "model/name.h"

namespace divvy::ledger {
namespace {

namespace json = boost::json;

// --- Writing ---

json::object to_json(const model::Slice& slice) {
  return {{"gpu", slice.gpu().str()},
          {"memory", slice.memory().count()},
          {"share", slice.share().thousandths()},
          {"capped", slice.kind() == model::ShareKind::kCap}};
}

json::object to_json(const TenantRecord& record) {
  json::array slices;
  for (const model::Slice& slice : record.slices) slices.push_back(to_json(slice));
  json::object object{{"id", record.id.value()},
                      {"holder", to_string(record.holder)},
                      {"job", record.member.job.value()},
                      {"attempt", record.member.attempt},
                      {"rank", record.member.rank},
                      {"name", record.name},
                      {"command", record.command},
                      {"uid", record.uid},
                      {"gid", record.gid},
                      {"since", record.since_unix},
                      {"class", to_string(record.tenant_class)},
                      {"mode", to_string(record.mode)},
                      {"slices", std::move(slices)}};
  if (has_root(record)) {
    object["pid"] = record.root.pid;
    object["startTicks"] = record.root.start_ticks;
  }
  return object;
}

struct ToJson {
  json::object operator()(const LedgerBegins& begins) const {
    return {{"begin", {{"boot", begins.boot}, {"nextId", begins.next_id.value()}}}};
  }
  json::object operator()(const TenantGranted& granted) const {
    return {{"grant", to_json(granted.record)}};
  }
  json::object operator()(const TenantChanged& changed) const {
    return {{"change", to_json(changed.record)}};
  }
  json::object operator()(const TenantReleased& released) const {
    return {{"release", released.tenant.value()}};
  }
  json::object operator()(const GpuCordoned& cordoned) const {
    return {{"cordon",
             {{"gpu", cordoned.gpu.str()},
              {"reason", cordoned.cordon.reason},
              {"draining", cordoned.cordon.draining},
              {"since", cordoned.cordon.since_unix}}}};
  }
  json::object operator()(const GpuUncordoned& uncordoned) const {
    return {{"uncordon", uncordoned.gpu.str()}};
  }
};

// --- Reading. The accessors of Boost.JSON throw where a value is not as it should be; the two
// functions at the end catch. ---

// A member that nobody asks for was written by somebody who means something by it.
void expect_members(const json::object& object, std::size_t count) {
  if (object.size() != count) throw std::invalid_argument("members that are not known here");
}

std::string text(const json::value& value) {
  return std::string(std::string_view(value.as_string()));
}

Result<model::GpuUuid> uuid_from(const json::value& value) {
  return model::GpuUuid::parse(std::string_view(value.as_string()));
}

Result<model::Slice> slice_from(const json::value& value) {
  const json::object& from = value.as_object();
  expect_members(from, 4);
  DIVVY_TRY(gpu, uuid_from(from.at("gpu")));
  const auto share = from.at("share").to_number<std::uint32_t>();
  if (share > Share::kWhole) return err(ErrorCode::kDataLoss, "a share is above one GPU");
  return model::Slice::create(
      std::move(gpu), Bytes(from.at("memory").to_number<std::uint64_t>()), Share(share),
      from.at("capped").as_bool() ? model::ShareKind::kCap : model::ShareKind::kGuarantee);
}

model::TenantId id_from(const json::value& value) {
  const auto number = value.to_number<std::uint64_t>();
  // The last one has none after it.
  if (number == 0 || number == std::numeric_limits<std::uint64_t>::max()) {
    throw std::invalid_argument("a tenant's number that there cannot be");
  }
  return model::TenantId(number);
}

// Before everybody was a job, members had names of their kind and the others had none.
void guess_owner(TenantRecord& record, bool rooted) {
  const auto member = model::parse_member_key(record.name);
  if (rooted) {
    record.holder = model::Holder::kProcess;
  } else if (member) {
    record.holder = model::Holder::kMembers;
    record.member = *member;
  }
}

Status read_owner(const json::object& from, TenantRecord& record) {
  DIVVY_TRY(holder, model::parse_holder(std::string_view(from.at("holder").as_string())));
  record.holder = holder;
  record.member = {model::JobId(from.at("job").to_number<std::uint64_t>()),
                   from.at("attempt").to_number<std::uint32_t>(),
                   from.at("rank").to_number<std::uint32_t>()};
  return {};
}

Result<TenantRecord> record_from(const json::value& value) {
  const json::object& from = value.as_object();
  const bool rooted = from.contains("pid");
  const bool owned = from.contains("holder");
  expect_members(from, 9 + (rooted ? 2 : 0) + (owned ? 4 : 0));
  TenantRecord record;
  record.id = id_from(from.at("id"));
  record.name = text(from.at("name"));
  DIVVY_RETURN_IF_ERROR(model::check_name("tenant", record.name));
  if (owned) {
    DIVVY_RETURN_IF_ERROR(read_owner(from, record));
  } else {
    guess_owner(record, rooted);
  }
  if (rooted != has_root(record)) return err(ErrorCode::kDataLoss, "a process that is no holder");
  record.command = text(from.at("command"));
  record.uid = from.at("uid").to_number<uid_t>();
  record.gid = from.at("gid").to_number<gid_t>();
  if (rooted) {
    record.root = {from.at("pid").to_number<pid_t>(),
                   from.at("startTicks").to_number<std::uint64_t>()};
    if (record.root.pid <= 0) return err(ErrorCode::kDataLoss, "a process that there cannot be");
  }
  record.since_unix = from.at("since").to_number<std::int64_t>();
  DIVVY_TRY(tenant_class, model::parse_job_class(std::string_view(from.at("class").as_string())));
  record.tenant_class = tenant_class;
  DIVVY_TRY(mode, model::parse_gpu_mode(std::string_view(from.at("mode").as_string())));
  record.mode = mode;
  std::set<model::GpuUuid> gpus;
  for (const json::value& item : from.at("slices").as_array()) {
    DIVVY_TRY(slice, slice_from(item));
    if (!gpus.insert(slice.gpu()).second) {
      return err(ErrorCode::kDataLoss, "two slices of one tenant on one GPU");
    }
    record.slices.push_back(std::move(slice));
  }
  if (record.slices.empty()) return err(ErrorCode::kDataLoss, "a tenant without a slice");
  return record;
}

Result<LedgerChange> change_from(const json::object& document) {
  expect_members(document, 1);
  const std::string_view kind = document.begin()->key();
  const json::value& value = document.begin()->value();
  if (kind == "begin") {
    const json::object& from = value.as_object();
    expect_members(from, 2);
    return LedgerBegins{text(from.at("boot")), id_from(from.at("nextId"))};
  }
  if (kind == "grant" || kind == "change") {
    DIVVY_TRY(record, record_from(value));
    if (kind == "grant") return TenantGranted{std::move(record)};
    return TenantChanged{std::move(record)};
  }
  if (kind == "release") return TenantReleased{id_from(value)};
  if (kind == "cordon") {
    const json::object& from = value.as_object();
    expect_members(from, 4);
    DIVVY_TRY(gpu, uuid_from(from.at("gpu")));
    return GpuCordoned{std::move(gpu),
                       {.reason = text(from.at("reason")),
                        .draining = from.at("draining").as_bool(),
                        .since_unix = from.at("since").to_number<std::int64_t>()}};
  }
  if (kind == "uncordon") {
    DIVVY_TRY(gpu, uuid_from(value));
    return GpuUncordoned{std::move(gpu)};
  }
  return err(ErrorCode::kDataLoss, "a kind of record that this version of Divvy does not know");
}

Result<FirstStateFile> first_state_from(const json::object& document) {
  if (document.at("format").to_number<int>() != 1) {
    return err(ErrorCode::kDataLoss, "it was written by another version of Divvy");
  }
  FirstStateFile file;
  file.boot = text(document.at("boot"));
  file.next_id = id_from(document.at("nextId"));
  for (const json::value& item : document.at("tenants").as_array()) {
    DIVVY_TRY(record, record_from(item));
    file.tenants.push_back(std::move(record));
  }
  return file;
}

template <typename T, typename Read>
Result<T> guarded(std::string_view text, Read&& read) {
  json::parse_options options;
  options.allow_invalid_utf8 = true;  // What a user typed is kept as it was typed.
  try {
    const json::value document = json::parse({text.data(), text.size()}, {}, options);
    Result<T> result = read(document.as_object());
    if (!result) return err(ErrorCode::kDataLoss, "{}", result.error().message);
    return result;
  } catch (const std::exception& error) {
    return err(ErrorCode::kDataLoss, "{}", error.what());
  }
}

}  // namespace

std::string encode(const LedgerChange& change) {
  return json::serialize(std::visit(ToJson(), change));
}

Result<LedgerChange> decode_ledger_change(std::string_view text) {
  return guarded<LedgerChange>(text, change_from);
}

Result<FirstStateFile> decode_first_state_file(std::string_view text) {
  return guarded<FirstStateFile>(text, first_state_from);
}

}  // namespace divvy::ledger
