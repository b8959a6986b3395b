#include "ledger/ledger_record.h"

#include <limits>
#include <set>

#include "model/json_fields.h"
#include "model/name.h"

namespace divvy::ledger {
namespace {

namespace json = boost::json;
using model::JsonFields;

constexpr std::string_view kCapped = "capped";

// --- Writing ---

json::object to_json(const TenantRecord& record) {
  json::array slices;
  for (const model::Slice& slice : record.slices) slices.push_back(slice_object(slice, kCapped));
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

// --- Reading ---

void read_id(JsonFields& from, std::string_view name, model::TenantId& id) {
  from.need(name, id);
  // The last one has none after it.
  if (id.value() == 0 || id.value() == std::numeric_limits<std::uint64_t>::max()) {
    from.refuse(name, "a tenant's number that there cannot be");
  }
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

void read_slices(JsonFields& from, std::vector<model::Slice>& slices) {
  std::set<model::GpuUuid> gpus;
  from.read_list("slices", [&](const json::value& item, const std::string& place) {
    auto slice = model::read_slice(item, kCapped);
    if (!slice) return from.refuse(place, slice.error().message);
    if (!gpus.insert(slice->gpu()).second) {
      return from.refuse(place, "two slices of one tenant on one GPU");
    }
    slices.push_back(*std::move(slice));
  });
  if (slices.empty()) from.refuse("slices", "a tenant without a slice");
}

void read_record(JsonFields& from, TenantRecord& record) {
  const bool rooted = from.has("pid");
  read_id(from, "id", record.id);
  from.need("name", record.name);
  if (const Status named = model::check_name("tenant", record.name); !named) {
    from.refuse("name", named.error().message);
  }
  if (from.has("holder")) {
    from.need("holder", record.holder);
    from.need("job", record.member.job);
    from.need("attempt", record.member.attempt);
    from.need("rank", record.member.rank);
  } else {
    guess_owner(record, rooted);
  }
  if (rooted != has_root(record)) from.refuse("pid", "a process that is no holder");
  from.need("command", record.command);
  from.need("uid", record.uid);
  from.need("gid", record.gid);
  if (rooted) {
    from.need("pid", record.root.pid);
    from.need("startTicks", record.root.start_ticks);
    if (record.root.pid <= 0) from.refuse("pid", "a process that there cannot be");
  }
  from.need("since", record.since_unix);
  from.need("class", record.tenant_class);
  from.need("mode", record.mode);
  read_slices(from, record.slices);
}

void read_cordon(JsonFields& from, std::optional<LedgerChange>& change) {
  model::Cordon cordon;
  from.need("reason", cordon.reason);
  from.need("draining", cordon.draining);
  from.need("since", cordon.since_unix);
  auto gpu = from.parsed("gpu", model::GpuUuid::parse);
  if (!gpu) return from.refuse("gpu", "it is missing");
  change = GpuCordoned{*std::move(gpu), std::move(cordon)};
}

void read_change(JsonFields& document, std::optional<LedgerChange>& change) {
  const std::string_view kind = document.only();
  if (kind == "begin") {
    document.inside(kind, [&](JsonFields& from) {
      LedgerBegins begins;
      from.need("boot", begins.boot);
      read_id(from, "nextId", begins.next_id);
      change = std::move(begins);
    });
  } else if (kind == "grant" || kind == "change") {
    TenantRecord record;
    document.inside(kind, [&](JsonFields& from) { read_record(from, record); });
    if (kind == "grant") {
      change = TenantGranted{std::move(record)};
    } else {
      change = TenantChanged{std::move(record)};
    }
  } else if (kind == "release") {
    TenantReleased released;
    read_id(document, kind, released.tenant);
    change = released;
  } else if (kind == "cordon") {
    document.inside(kind, [&](JsonFields& from) { read_cordon(from, change); });
  } else if (kind == "uncordon") {
    if (auto gpu = document.parsed(kind, model::GpuUuid::parse)) {
      change = GpuUncordoned{*std::move(gpu)};
    }
  } else {
    document.refuse("", "a kind of record that this version of Divvy does not know");
  }
}

}  // namespace

std::string encode(const LedgerChange& change) {
  return json::serialize(std::visit(ToJson(), change));
}

Result<LedgerChange> decode_ledger_change(std::string_view text) {
  std::optional<LedgerChange> change;
  DIVVY_RETURN_IF_ERROR(
      model::read_own_json("record", text, model::Unread::kRefused,
                           [&](JsonFields& document) { read_change(document, change); }));
  if (!change) return err(ErrorCode::kDataLoss, "record: there is nothing in it");
  return *std::move(change);
}

Result<FirstStateFile> decode_first_state_file(std::string_view text) {
  FirstStateFile file;
  DIVVY_RETURN_IF_ERROR(
      model::read_own_json("state", text, model::Unread::kLeft, [&](JsonFields& document) {
        int format = 0;
        document.need("format", format);
        if (format != 1) document.refuse("format", "it was written by another version of Divvy");
        document.need("boot", file.boot);
        read_id(document, "nextId", file.next_id);
        document.read_list("tenants", [&](const json::value& item, const std::string& place) {
          document.inside(item, place, [&](JsonFields& from) {
            read_record(from, file.tenants.emplace_back());
          });
        });
      }));
  return file;
}

}  // namespace divvy::ledger
