// The daemon and what belongs to it: does it run, is it of one version with the rest, can programs
// be put under it?
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <boost/json.hpp>

#include "base/counted.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/daemon.h"
#include "cli/doctor.h"
#include "cli/doctor_files.h"

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::uint64_t kLittleSpace = 64U << 20U;
constexpr std::uint64_t kNoSpace = 1U << 20U;

json::object parse_object(const std::string& body) {
  boost::system::error_code code;
  json::value value = json::parse(body, code);
  return !code && value.is_object() ? value.as_object() : json::object{};
}

std::string text_in(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

Finding version_of(const DoctorInput& input, const json::object& node) {
  const std::string version = text_in(node, "version");
  if (version == input.version) {
    return {"daemon.version", Verdict::kOk,
            fmt::format("divvyd runs and is version {}, as this divvy is", version), ""};
  }
  return {"daemon.version", Verdict::kWarning,
          fmt::format("divvyd is version {} and this divvy {}", version, input.version),
          "`systemctl restart divvyd` starts the installed one; tenants go on meanwhile."};
}

// Processes keep the library that they were started with.
Finding library_versions(const DoctorInput& input, const std::string& tenants) {
  std::size_t processes = 0;
  std::size_t others = 0;
  const json::object document = parse_object(tenants);
  const json::value* items = document.if_contains("items");
  for (const json::value& item :
       items != nullptr && items->is_array() ? items->as_array() : json::array{}) {
    const json::value* list =
        item.is_object() ? item.as_object().if_contains("processes") : nullptr;
    if (list == nullptr || !list->is_array()) continue;
    for (const json::value& process : list->as_array()) {
      ++processes;
      if (process.is_object() && text_in(process.as_object(), "libraryVersion") != input.version) {
        ++others;
      }
    }
  }
  if (others == 0) {
    return {
        "daemon.processes", Verdict::kOk,
        fmt::format("{} GPUs under divvyd", counted(processes, "process uses", "processes use")),
        ""};
  }
  return {"daemon.processes", Verdict::kNote,
          fmt::format("{} of {} {} with the library of another version", others,
                      counted(processes, "process", "processes"), others == 1 ? "runs" : "run"),
          "They work as before and get the new one when they are started next."};
}

bool has_gpus_of_another_kind(const DoctorInput& input, const json::object& node) {
  const json::value* simulated = node.if_contains("simulated");
  return simulated != nullptr && simulated->is_bool() && simulated->as_bool() != input.simulated;
}

bool is_daemon_of_root(const DoctorInput& input) {
  return is_of_root(below(input.root, input.run_folder / "divvyd.sock"));
}

Findings answering_daemon(const DoctorInput& input, const Reply& reply) {
  Findings findings;
  const json::object node = parse_object(reply.body);
  findings.push_back(version_of(input, node));
  const bool other_kind = has_gpus_of_another_kind(input, node);
  if (other_kind && !input.simulated && is_daemon_of_root(input)) {
    findings.push_back(
        {"daemon.kind", Verdict::kNote, "the GPUs of this machine's divvyd are simulated", ""});
  } else if (other_kind) {
    findings.push_back(
        {"daemon.kind", Verdict::kError,
         fmt::format("the divvyd in {} has {} GPUs and this environment asks for {}",
                     input.run_folder.string(), input.simulated ? "real" : "simulated",
                     input.simulated ? "simulated ones" : "real ones"),
         "Set DIVVY_RUN_DIR to another folder, or change the DIVVY_SIM_... "
         "variables."});
  }
  if (const auto tenants = input.ask_daemon("/v1/tenants"); tenants && tenants->ok()) {
    findings.push_back(library_versions(input, tenants->body));
  }
  return findings;
}

Finding socket_rights(const DoctorInput& input) {
  const std::string check = "daemon.socket";
  const fs::path path = input.run_folder / "divvyd.sock";
  const auto status = look_at(below(input.root, path));
  const std::string name = path.string();
  if (!status) return {check, Verdict::kOk, fmt::format("no socket at {} yet", name), ""};
  if (!S_ISSOCK(status->st_mode)) {
    return {check, Verdict::kError, fmt::format("{} is no socket", name),
            "Remove it and start divvyd again."};
  }
  const unsigned mode = status->st_mode & 0777U;
  if (status->st_uid == 0 && (mode & 0006U) != 0006U) {
    return {check, Verdict::kNote,
            fmt::format("{} has mode {:04o}: not every user may ask for a slice", name, mode),
            "If that is not wanted, set socket.mode to 0666 or add the users to socket.group in "
            "/etc/divvy/divvyd.yaml and run `systemctl reload divvyd`."};
  }
  return {check, Verdict::kOk, fmt::format("{} has mode {:04o}", name, mode), ""};
}

Finding state_folder(const DoctorInput& input) {
  const std::string check = "daemon.state_folder";
  const fs::path path = below(input.root, input.state_folder);
  const std::string name = input.state_folder.string();
  const auto status = look_at(path);
  if (!status) {
    return {check, Verdict::kOk, fmt::format("{} will be made by divvyd", name), ""};
  }
  if (!S_ISDIR(status->st_mode)) {
    return {check, Verdict::kError, fmt::format("{} is no folder", name),
            "Move it away, or name another one with folders.state."};
  }
  if (status->st_uid != input.uid && input.uid == 0) {
    return {check, Verdict::kError, fmt::format("{} belongs to user {}", name, status->st_uid),
            fmt::format("divvyd refuses it: chown root:root {}", name)};
  }
  if ((status->st_mode & 0022) != 0) {
    return {check, Verdict::kWarning, fmt::format("others may write to {}", name),
            fmt::format("Whoever can write there can forge the ledger: chmod 0700 {}", name)};
  }
  struct statvfs space{};
  if (::statvfs(path.c_str(), &space) != 0) {
    return {check, Verdict::kNote, fmt::format("the space left in {} is not known", name), ""};
  }
  const std::uint64_t left = std::uint64_t{space.f_bavail} * space.f_frsize;
  const std::string text = fmt::format("{} has {} left", name, humanize(Bytes(left)));
  if (left >= kLittleSpace) return {check, Verdict::kOk, text, ""};
  return {check, left < kNoSpace ? Verdict::kError : Verdict::kWarning, text,
          "Without space nothing new is granted; those who hold slices go on. Free some, or move "
          "folders.state."};
}

Finding shim(const DoctorInput& input) {
  const std::string check = "daemon.library";
  const std::string name = input.shim.string();
  if (!look_at(input.shim)) {
    return {check, Verdict::kError, fmt::format("the library {} is missing", name),
            "Programs cannot be put into slices without it: install Divvy again."};
  }
  if (const Status loaded = input.preload(); !loaded) {
    return {check, Verdict::kError,
            fmt::format("the library {} cannot be loaded: {}", name, loaded.error().message),
            "Divvy was built for another system: install the package of this one."};
  }
  return {check, Verdict::kOk, fmt::format("the library {} can be loaded", name), ""};
}

Finding configuration(const DoctorInput& input) {
  const Status& checked = input.settings.file;
  if (checked) return {"daemon.configuration", Verdict::kOk, "the configuration is fine", ""};
  return {"daemon.configuration", Verdict::kError, "the configuration of divvyd is wrong",
          checked.error().message};
}

}  // namespace

bool has_simulated_gpus_of_root(const DoctorInput& input) {
  if (input.simulated || !is_daemon_of_root(input)) return false;
  const auto reply = input.ask_daemon("/v1/node");
  return reply && reply->ok() && has_gpus_of_another_kind(input, parse_object(reply->body));
}

Findings examine_daemon(const DoctorInput& input) {
  Findings findings;
  const auto reply = input.ask_daemon("/v1/node");
  if (reply && reply->ok()) {
    findings = answering_daemon(input, *reply);
  } else if (reply || reply.error().code != ErrorCode::kUnavailable) {
    findings.push_back({"daemon.version", Verdict::kError,
                        reply ? fmt::format("divvyd answers with status {}", reply->status)
                              : "divvyd does not answer: " + reply.error().message,
                        fmt::format("Look at its log (`journalctl -u divvyd`, or {} of a divvyd of "
                                    "your own) and restart it; tenants go on meanwhile.",
                                    (input.state_folder / "divvyd.log").string())});
  } else {
    findings.push_back({"daemon.version", Verdict::kWarning,
                        fmt::format("no divvyd runs in {}", input.run_folder.string()),
                        "`systemctl enable --now divvyd` starts one for everybody; `divvy run` "
                        "starts one for you by itself."});
  }
  findings.push_back(socket_rights(input));
  findings.push_back(state_folder(input));
  findings.push_back(shim(input));
  findings.push_back(configuration(input));
  return findings;
}

}  // namespace divvy::cli
