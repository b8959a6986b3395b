#include "run/podman_runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/parse_error.h"
#include "model/publish_variable.h"

namespace divvy::run {
namespace {

// Those below are for root alone to listen on.
constexpr std::uint32_t kFirstUsersPort = 1024;

Words command(const PodmanMember& podman, std::initializer_list<std::string> words) {
  Words result = podman.settings.program;
  result.insert(result.end(), words);
  return result;
}

void add(Words& words, std::initializer_list<std::string> more) { words.insert(words.end(), more); }

bool has_control_or(std::string_view text, std::string_view others) {
  return std::ranges::any_of(text, [others](char c) {
    return static_cast<unsigned char>(c) < 0x20 || others.find(c) != std::string_view::npos;
  });
}

// Versions of podman differ in what they do with quotes in a file of variables.
bool is_plain_value(std::string_view value) {
  return !has_control_or(value, "\"'`\\") && !value.starts_with(' ');
}

Status add_mounts(const model::ContainerSpec& container, Words& words) {
  for (const model::Mount& mount : container.mounts) {
    for (const std::string& path : {mount.source, mount.target}) {
      if (!path.starts_with('/') || has_control_or(path, ",\"")) {
        return err(ErrorCode::kInvalidArgument,
                   "container.mounts: {} is not an absolute path without commas and quotes",
                   quote_typed(path));
      }
    }
    add(words, {"--mount", fmt::format("type=bind,source={},destination={},ro={}", mount.source,
                                       mount.target, mount.read_only ? "true" : "false")});
  }
  return {};
}

bool is_tag(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

// "registry:5000/name:tag@sha256:...", as in a registry. Podman also takes "TRANSPORT:WHERE", which
// it would read with root's rights.
bool is_registry_name(std::string_view image) {
  constexpr std::string_view kTransports[] = {
      "atomic", "containers-storage", "dir",    "docker", "docker-archive", "docker-daemon",
      "oci",    "oci-archive",        "ostree", "sif",    "tarball"};
  constexpr std::string_view kRegistry = "docker://";
  if (image.starts_with(kRegistry)) image.remove_prefix(kRegistry.size());
  if (std::ranges::count(kTransports, image.substr(0, image.find(':'))) > 0 &&
      image.find(':') != std::string_view::npos) {
    return false;
  }
  if (const std::size_t at = image.find('@'); at != std::string_view::npos) {
    const std::string_view digest = image.substr(at + 1);
    const std::size_t colon = digest.find(':');
    if (colon == std::string_view::npos || !is_tag(digest.substr(0, colon)) ||
        !is_tag(digest.substr(colon + 1))) {
      return false;
    }
    image = image.substr(0, at);
  }
  // Parts between slashes; a colon only before a port in the first and a tag in the last.
  for (bool first = true;; first = false) {
    const std::size_t slash = image.find('/');
    std::string_view part = image.substr(0, slash);
    const bool last = slash == std::string_view::npos;
    if (const std::size_t colon = part.find(':'); colon != std::string_view::npos) {
      if ((!first && !last) || !is_tag(part.substr(colon + 1))) return false;
      part = part.substr(0, colon);
    }
    if (!is_tag(part) || part.front() == '.' || part.front() == '-') return false;
    if (last) return true;
    image.remove_prefix(slash + 1);
  }
}

void add_group_limits(const model::MemberLimits& limits, Words& words) {
  if (limits.ram) {
    // The same for both together: no swap beside it.
    add(words, {"--memory", fmt::format("{}b", limits.ram->count()), "--memory-swap",
                fmt::format("{}b", limits.ram->count())});
  }
  if (limits.cpu_milli) {
    add(words,
        {"--cpus", fmt::format("{}.{:03}", *limits.cpu_milli / 1'000, *limits.cpu_milli % 1'000)});
  }
  if (limits.pids) add(words, {"--pids-limit", fmt::to_string(*limits.pids)});
}

void add_other_limits(const model::MemberLimits& limits, Words& words) {
  if (limits.shm) add(words, {"--shm-size", fmt::format("{}b", limits.shm->count())});
  for (const auto& [name, limit] : limits.ulimits) {
    const auto word = [](std::uint64_t value) {
      return value == model::Ulimit::kUnlimited ? "-1" : fmt::format("{}", value);
    };
    add(words, {"--ulimit", fmt::format("{}={}:{}", name, word(limit.soft), word(limit.hard))});
  }
}

// The same number inside as outside: 0 of podman's namespace is the user, and the numbers of the
// namespace go round it.
void add_id_map(const char* option, std::uint32_t own, std::uint32_t count, Words& words) {
  const std::uint32_t below = std::min(own, count);
  if (below > 0) add(words, {option, fmt::format("0:1:{}", below)});
  add(words, {option, fmt::format("{}:0:1", own)});
  if (count > own) add(words, {option, fmt::format("{}:{}:{}", own + 1, own + 1, count - own)});
}

void add_user(const PodmanMember& podman, const MemberStart& member, Words& words) {
  if (podman.user == PodmanUser::kDaemon) add(words, {"--userns", "keep-id"});
  if (podman.user == PodmanUser::kMember) {
    add_id_map("--uidmap", member.uid, podman.uids, words);
    add_id_map("--gidmap", member.gid, podman.gids, words);
  }
  add(words, {"--user", fmt::format("{}:{}", member.uid, member.gid)});
  // Only root's podman has the numbers of all groups.
  if (podman.user == PodmanUser::kRoot) {
    for (const gid_t group : member.groups) add(words, {"--group-add", fmt::to_string(group)});
  }
  // A program in the image that makes itself root would be root over everything that is mounted.
  if (member.uid != 0) add(words, {"--security-opt", "no-new-privileges"});
}

// As plain processes have it, so that members of a gang reach each other; ports can be published
// only from a network of its own.
bool has_network_of_machine(const PodmanSettings& settings, const model::ContainerSpec& container) {
  const auto chooses = [](const std::string& word) { return word.starts_with("--net"); };
  return container.ports.empty() && std::ranges::none_of(settings.run_options, chooses);
}

void add_network(const PodmanMember& podman, const MemberStart& member, Words& words) {
  const model::ContainerSpec& container = *member.container;
  const auto said = member.environment.find(model::kPublishVariable);
  const bool here = said != member.environment.end() && said->second == model::kPublishLoopback;
  for (const model::PublishedPort& port : container.ports) {
    add(words,
        {"--publish", fmt::format("{}{}:{}", here ? "127.0.0.1:" : "", port.host, port.container)});
  }
  if (has_network_of_machine(podman.settings, container)) add(words, {"--network", "host"});
}

}  // namespace

Result<std::uint16_t> port_on_machine(const Orders& orders, std::uint16_t port) {
  const auto& container = orders.member.container;
  if (!container || has_network_of_machine(orders.podman, *container)) return port;
  const auto published =
      std::ranges::find(container->ports, port, &model::PublishedPort::container);
  if (published != container->ports.end()) return published->host;
  return err(ErrorCode::kFailedPrecondition,
             "port {} of this container is not published, and it has a network of its own; submit "
             "it without published ports, or with this one",
             port);
}

Result<ContainerVariables> container_variables(const Environment& environment) {
  ContainerVariables result;
  for (const auto& [name, value] : environment) {
    if (name.empty() || has_control_or(name, "= ") || name.starts_with('#')) {
      return err(ErrorCode::kInvalidArgument, "environment: {} is not the name of a variable",
                 quote_typed(name));
    }
    if (is_plain_value(value)) {
      result.file += fmt::format("{}={}\n", name, value);
    } else {
      add(result.options, {"--env", fmt::format("{}={}", name, value)});
    }
  }
  return result;
}

Result<std::string> secret_variables(const Environment& secrets) {
  std::string file;
  for (const auto& [name, value] : secrets) {
    // Anywhere else but in that file it would be seen in a list of processes.
    if (!is_plain_value(value)) {
      return err(ErrorCode::kInvalidArgument,
                 "secrets.{}: it has quotes, backslashes or line ends in it, or begins with a "
                 "space, and a container cannot be given that; encode it (base64)",
                 name);
    }
    file += fmt::format("{}={}\n", name, value);
  }
  return file;
}

Result<Words> podman_run(const PodmanMember& podman, const MemberStart& member,
                         const ContainerVariables& variables, const std::string& variables_path) {
  if (!member.container || member.container->image.empty()) {
    return err(ErrorCode::kInvalidArgument, "container.image: there is none");
  }
  const model::ContainerSpec& container = *member.container;
  const bool for_another = podman.user == PodmanUser::kRoot && member.uid != 0;
  if (for_another && !is_registry_name(container.image)) {
    return err(ErrorCode::kPermissionDenied,
               "container.image: {} is not a name as in a registry, like docker.io/library/x:1; "
               "root's podman reads no files and asks no other daemons for users",
               quote_typed(container.image));
  }
  for (const model::PublishedPort& port : container.ports) {
    if (!for_another || port.host >= kFirstUsersPort) continue;
    return err(ErrorCode::kPermissionDenied,
               "container.ports: {} is a port of root's; take one from {} on", port.host,
               kFirstUsersPort);
  }
  Words words =
      command(podman, {"run", "--name", podman.name, "--label",
                       "divvy.dev/member=" + to_string(member.key), "--log-driver", "none"});
  const Words& ours = podman.settings.run_options;
  words.insert(words.end(), ours.begin(), ours.end());
  add_user(podman, member, words);
  if (podman.user != PodmanUser::kMember) add_group_limits(member.limits, words);
  add_other_limits(member.limits, words);
  add_network(podman, member, words);
  DIVVY_RETURN_IF_ERROR(add_mounts(container, words));
  for (const std::string& device : member.cdi_devices) add(words, {"--device", device});
  if (!member.working_directory.empty()) add(words, {"--workdir", member.working_directory});
  if (!variables.file.empty()) add(words, {"--env-file", variables_path});
  words.insert(words.end(), variables.options.begin(), variables.options.end());
  if (member.keep_input) words.emplace_back("--interactive");
  Words rest;
  if (container.entry_point) {
    // Podman takes one word; what follows it comes before the command.
    const Words& entry = *container.entry_point;
    add(words, {"--entrypoint", entry.empty() ? "" : entry.front()});
    rest.assign(entry.empty() ? entry.end() : entry.begin() + 1, entry.end());
  }
  // An image cannot be taken for an option.
  add(words, {"--", container.image});
  words.insert(words.end(), rest.begin(), rest.end());
  words.insert(words.end(), member.command.begin(), member.command.end());
  return words;
}

Words podman_exec(const PodmanMember& podman, const ContainerExec& exec) {
  Words words = command(podman, {"exec", "--interactive"});
  if (exec.terminal) words.emplace_back("--tty");
  if (!exec.working_directory.empty()) add(words, {"--workdir", exec.working_directory});
  for (const auto& [name, value] : exec.environment) {
    add(words, {"--env", fmt::format("{}={}", name, value)});
  }
  words.push_back(podman.name);
  words.insert(words.end(), exec.command.begin(), exec.command.end());
  return words;
}

Words podman_unpause(const PodmanMember& podman) {
  return command(podman, {"unpause", podman.name});
}

Words podman_ask_out_of_memory(const PodmanMember& podman) {
  return command(
      podman, {"inspect", "--type", "container", "--format", "{{.State.OOMKilled}}", podman.name});
}

Words podman_remove(const PodmanMember& podman) {
  return command(podman, {"rm", "--force", "--time", "0", "--ignore", "--volumes", podman.name});
}

}  // namespace divvy::run
