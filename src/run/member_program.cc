#include "run/member_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "run/podman_runtime.h"
#include "run/rootless.h"
#include "run/sealed_file.h"
#include "run/staged_mounts.h"
#include "sys/durable_file.h"

extern char** environ;

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariablesFile = "variables";

// Copying is a tar in the member that reads or writes a stream. In words that every tar knows, also
// a small one in an image.
std::vector<std::string> tar_words(const CopyRequest& request) {
  if (!request.out) return {"tar", "-x", "-f", "-", "-C", request.path};
  const fs::path path = request.path;
  const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
  const fs::path above =
      path.has_filename() ? path.parent_path() : path.parent_path().parent_path();
  if (last.empty()) return {"tar", "-c", "-f", "-", "-C", "/", "."};
  return {"tar", "-c", "-f", "-", "-C", above.string(), "--", last.string()};
}

class PlainProgram final : public MemberProgram {
 public:
  PlainProgram(const MemberStart& member, std::string name)
      : member_(member), name_(std::move(name)) {}

  Result<ChildPlan> start() const override {
    ChildPlan plan = as_member();
    plan.words = member_.command;
    return plan;
  }

  ChildPlan exec(const ExecRequest& request) const override {
    ChildPlan plan = as_member();
    plan.words = request.command;
    for (const auto& [name, value] : request.environment) plan.environment[name] = value;
    if (!request.working_directory.empty()) plan.working_directory = request.working_directory;
    return plan;
  }

  ChildPlan copy(const CopyRequest& request) const override {
    ChildPlan plan = as_member();
    // The machine's own tar, whatever stands first in the member's PATH.
    plan.environment["PATH"] = "/usr/bin:/bin";
    plan.words = tar_words(request);
    return plan;
  }

  bool passes_signals_on() const override { return false; }
  std::optional<ChildPlan> thaw() const override { return std::nullopt; }
  std::optional<ChildPlan> ask_out_of_memory() const override { return std::nullopt; }
  std::optional<ChildPlan> remove() const override { return std::nullopt; }
  model::MemberLimits group_limits() const override { return member_.limits; }

 private:
  ChildPlan as_member() const {
    ChildPlan plan;
    plan.environment = member_.environment;
    plan.environment.insert(member_.secrets.begin(), member_.secrets.end());
    plan.environment[kMemberVariable] = name_;
    plan.working_directory = member_.working_directory;
    plan.uid = member_.uid;
    plan.gid = member_.gid;
    plan.groups = member_.groups;
    plan.ulimits = member_.limits.ulimits;
    return plan;
  }

  MemberStart member_;
  std::string name_;
};

// Podman and what it starts are in the member's control group with the member, where the group
// holds the limits: what they need at most, with an image that is pulled.
constexpr Bytes kPodmanRam = mib(256);
constexpr std::uint32_t kPodmanTasks = 256;

PodmanMember podman_of(const Orders& orders, const MemberFolder& folder) {
  PodmanMember podman;
  podman.settings = orders.podman;
  podman.name = unique_name(folder);
  if (::geteuid() != 0) {
    podman.user = PodmanUser::kDaemon;
  } else if (orders.podman.per_user && orders.member.uid != 0) {
    podman.user = PodmanUser::kMember;
  }
  return podman;
}

class PodmanProgram final : public MemberProgram {
 public:
  PodmanProgram(const Orders& orders, const MemberFolder& folder)
      : member_(orders.member), podman_(podman_of(orders, folder)), folder_(folder) {}

  Status prepare() override {
    if (podman_.user != PodmanUser::kMember) return {};
    DIVVY_TRY(user, find_user(member_.uid));
    user.gid = member_.gid;
    user.groups = member_.groups;
    DIVVY_TRY(wanted, rootless_user(user, podman_.settings));
    DIVVY_TRY(rootless, rootless_podman(user, podman_.settings));
    DIVVY_TRY(inside, sys::UserNamespace::create(wanted));
    inside_ = std::make_shared<const sys::UserNamespace>(std::move(inside));
    podman_.settings.program = std::move(rootless.program);
    podman_.uids = sys::count_of(wanted.uids);
    podman_.gids = sys::count_of(wanted.gids);
    environment_ = std::move(rootless.environment);
    return {};
  }

  Result<ChildPlan> start() const override {
    MemberStart member = member_;
    if (podman_.user != PodmanUser::kDaemon && member.uid != 0) {
      DIVVY_RETURN_IF_ERROR(check_ulimits(member_.limits.ulimits));
    }
    if (podman_.user == PodmanUser::kRoot && member.uid != 0) {
      DIVVY_TRY(staged, stage_mounts(folder_, as_user(), member.container->mounts));
      member.container->mounts = std::move(staged);
    }
    DIVVY_TRY(variables, container_variables(member_.environment));
    DIVVY_TRY(secrets, secret_variables(member_.secrets));
    variables.file += secrets;
    std::shared_ptr<const UniqueFd> kept;
    std::string path = (folder_.path() / kVariablesFile).string();
    if (podman_.user == PodmanUser::kMember || !secrets.empty()) {
      // The folder is root's, and nothing in it the user's to change; and secrets are in no file.
      DIVVY_TRY(file, sealed_file("divvy-variables", variables.file));
      kept = std::make_shared<const UniqueFd>(std::move(file));
      path = fmt::format("/proc/self/fd/{}", kKeptDescriptor);
    } else {
      DIVVY_RETURN_IF_ERROR(sys::write_whole(folder_.fd(), kVariablesFile, variables.file));
    }
    DIVVY_TRY(words, podman_run(podman_, member, variables, path));
    ChildPlan plan = as_podman(std::move(words));
    plan.kept = std::move(kept);
    // Nothing of a user's: what looks like the name of an image may still be taken for a path.
    if (podman_.user != PodmanUser::kMember) plan.working_directory = folder_.path().string();
    return plan;
  }

  ChildPlan exec(const ExecRequest& request) const override {
    return as_podman(
        podman_exec(podman_, {request.command, request.environment, request.working_directory,
                              request.terminal.has_value()}));
  }

  // Inside, where the member's user has the rights that it has; podman's own copy has root's.
  ChildPlan copy(const CopyRequest& request) const override {
    return as_podman(podman_exec(podman_, {tar_words(request), {}, {}, false}));
  }

  bool passes_signals_on() const override { return true; }
  std::optional<ChildPlan> thaw() const override {
    if (podman_.user == PodmanUser::kMember) return std::nullopt;
    return as_podman(podman_unpause(podman_));
  }
  std::optional<ChildPlan> ask_out_of_memory() const override {
    if (!member_.limits.ram || podman_.user == PodmanUser::kMember) return std::nullopt;
    return as_podman(podman_ask_out_of_memory(podman_));
  }
  std::optional<ChildPlan> remove() const override { return as_podman(podman_remove(podman_)); }
  model::MemberLimits group_limits() const override {
    if (podman_.user != PodmanUser::kMember) return {};
    model::MemberLimits limits = member_.limits;
    if (limits.ram) limits.ram = Bytes(limits.ram->count() + kPodmanRam.count());
    if (limits.pids) limits.pids = *limits.pids + kPodmanTasks;
    return limits;
  }

 private:
  ChildPlan as_podman(Words words) const {
    if (podman_.user != PodmanUser::kMember) return as_daemons_podman(std::move(words));
    ChildPlan plan = as_user();
    plan.words = std::move(words);
    plan.environment = environment_;
    plan.environment[kMemberVariable] = podman_.name;
    plan.inside = inside_;
    return plan;
  }

  // The daemon's own program, which runs as the daemon does.
  ChildPlan as_daemons_podman(Words words) const {
    ChildPlan plan;
    plan.words = std::move(words);
    plan.uid = ::geteuid();
    plan.gid = ::getegid();
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::size_t end = text.find('=');
      if (end == std::string_view::npos) continue;
      plan.environment[std::string(text.substr(0, end))] = std::string(text.substr(end + 1));
    }
    plan.environment[kMemberVariable] = podman_.name;
    return plan;
  }

  ChildPlan as_user() const {
    ChildPlan plan;
    plan.uid = member_.uid;
    plan.gid = member_.gid;
    plan.groups = member_.groups;
    return plan;
  }

  MemberStart member_;
  PodmanMember podman_;
  const MemberFolder& folder_;
  // Of the member's user.
  std::shared_ptr<const sys::UserNamespace> inside_;
  Environment environment_;
};

}  // namespace

std::string unique_name(const MemberFolder& folder) {
  // Two daemons may both have a first job, but not in one folder (FNV-1a of its path).
  std::error_code code;
  const fs::path absolute = fs::weakly_canonical(folder.path(), code);
  std::uint64_t hash = 14'695'981'039'346'656'037ULL;
  for (const char c : (code ? folder.path() : absolute).string()) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211ULL;
  }
  return fmt::format("divvy-{}-{:016x}", to_string(folder.key()), hash);
}

std::unique_ptr<MemberProgram> make_program(const Orders& orders, const MemberFolder& folder) {
  if (orders.member.container) return std::make_unique<PodmanProgram>(orders, folder);
  return std::make_unique<PlainProgram>(orders.member, unique_name(folder));
}

}  // namespace divvy::run
