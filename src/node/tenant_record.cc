#include "node/tenant_record.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/text.h"

namespace divvy::node {
namespace {

namespace json = boost::json;

json::object to_json(const model::Slice& slice) {
  return {{"gpu", slice.gpu().str()},
          {"memory", slice.memory().count()},
          {"share", slice.share().thousandths()},
          {"capped", slice.kind() == model::ShareKind::kCap}};
}

json::object to_json(const TenantRecord& record) {
  json::array slices;
  for (const model::Slice& slice : record.slices) slices.push_back(to_json(slice));
  return {{"id", record.id.value()},
          {"name", record.name},
          {"command", record.command},
          {"uid", record.uid},
          {"gid", record.gid},
          {"pid", record.root.pid},
          {"startTicks", record.root.start_ticks},
          {"since", record.since_unix},
          {"class", to_string(record.tenant_class)},
          {"mode", to_string(record.mode)},
          {"slices", std::move(slices)}};
}

// The accessors of Boost.JSON throw where the document is not as it should be; load() catches.
Result<model::Slice> slice_from(const json::value& value) {
  const json::object& from = value.as_object();
  DIVVY_TRY(gpu, model::GpuUuid::parse(std::string_view(from.at("gpu").as_string())));
  const auto share = from.at("share").to_number<std::uint32_t>();
  if (share > Share::kWhole) return err(ErrorCode::kDataLoss, "a share is above one GPU");
  return model::Slice::create(
      std::move(gpu), Bytes(from.at("memory").to_number<std::uint64_t>()), Share(share),
      from.at("capped").as_bool() ? model::ShareKind::kCap : model::ShareKind::kGuarantee);
}

Result<TenantRecord> record_from(const json::value& value) {
  const json::object& from = value.as_object();
  TenantRecord record;
  record.id = model::TenantId(from.at("id").to_number<std::uint64_t>());
  record.name = std::string_view(from.at("name").as_string());
  record.command = std::string_view(from.at("command").as_string());
  record.uid = from.at("uid").to_number<uid_t>();
  record.gid = from.at("gid").to_number<gid_t>();
  record.root = {from.at("pid").to_number<pid_t>(),
                 from.at("startTicks").to_number<std::uint64_t>()};
  record.since_unix = from.at("since").to_number<std::int64_t>();
  DIVVY_TRY(tenant_class, parse_tenant_class(std::string_view(from.at("class").as_string())));
  record.tenant_class = tenant_class;
  DIVVY_TRY(mode, parse_gpu_mode(std::string_view(from.at("mode").as_string())));
  record.mode = mode;
  for (const json::value& item : from.at("slices").as_array()) {
    DIVVY_TRY(slice, slice_from(item));
    record.slices.push_back(std::move(slice));
  }
  return record;
}

Error file_error(std::string_view what, const std::filesystem::path& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return {ErrorCode::kIo, fmt::format("{} {}: {}{}", path.string(), what, std::strerror(errno),
                                      full ? "; free some space there and try again" : "")};
}

Status write_all(int fd, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return err(file_error("could not be written", path));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

std::string_view to_string(TenantClass tenant_class) {
  return tenant_class == TenantClass::kLatency ? "latency" : "batch";
}

Result<TenantClass> parse_tenant_class(std::string_view text) {
  const std::string word = to_lower(trim(text));
  if (word == "batch") return TenantClass::kBatch;
  if (word == "latency") return TenantClass::kLatency;
  return err(ErrorCode::kInvalidArgument, "there is no class \"{}\"; write batch or latency",
             escape_for_terminal(text.substr(0, 40)));
}

Status StateFile::save(const Contents& contents) const {
  json::array tenants;
  for (const TenantRecord& record : contents.tenants) tenants.push_back(to_json(record));
  const json::object document{{"format", 1},
                              {"boot", boot_id()},
                              {"nextId", contents.next_id.value()},
                              {"tenants", std::move(tenants)}};
  const std::string text = json::serialize(document) + "\n";

  const std::filesystem::path temporary = path_.string() + ".new";
  UniqueFd file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return err(file_error("could not be opened", temporary));
  if (Status written = write_all(file.get(), text, temporary); !written) {
    // Half a state is of no use and takes up space that there is none of.
    (void)!::ftruncate(file.get(), 0);
    return written;
  }
  if (::fsync(file.get()) != 0) return err(file_error("could not be synced", temporary));
  if (::rename(temporary.c_str(), path_.c_str()) != 0) {
    return err(file_error("could not be replaced", path_));
  }
  // The new name is on the disk only once the folder is.
  const UniqueFd folder(::open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) {
    return err(file_error("could not be synced", path_.parent_path()));
  }
  return {};
}

Result<StateFile::Contents> StateFile::load() const {
  std::ifstream file(path_);
  if (!file) return Contents{};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Contents contents;
  try {
    const json::value document = json::parse(text);
    const json::object& from = document.as_object();
    if (from.at("format").to_number<int>() != 1) {
      return err(ErrorCode::kDataLoss, "{} was written by another version of Divvy",
                 path_.string());
    }
    contents.next_id = model::TenantId(from.at("nextId").to_number<std::uint64_t>());
    const bool booted = std::string_view(from.at("boot").as_string()) != boot_id();
    for (const json::value& item : from.at("tenants").as_array()) {
      DIVVY_TRY(record, with_context(record_from(item), path_.string()));
      // After a boot no process of before is left.
      if (!booted || !has_root(record)) contents.tenants.push_back(std::move(record));
    }
  } catch (const std::exception& error) {
    return err(ErrorCode::kDataLoss, "{} is damaged ({}); remove it to start with no tenants",
               path_.string(), error.what());
  }
  return contents;
}

}  // namespace divvy::node
