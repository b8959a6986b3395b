// The files of a member's folder as text (JSON), both ways. Whoever reads them may be another
// version of the daemon, or find them damaged: any bytes are safe to pass, unknown fields are left
// alone, and a missing one is as good as its default. Pure functions, callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "run/runtime.h"
#include "sys/processes.h"

namespace divvy::run {

// How podman is called on this machine.
struct PodmanSettings {
  // With its global options ("--root", ...); looked for in PATH.
  std::vector<std::string> program = {"podman"};
  std::vector<std::string> run_options;  // for `podman run`, before ours
  // Root's daemon has each job's own user run podman (run/rootless.h); otherwise it is root's.
  bool per_user = false;
  std::string run_folder;  // then: holds the runtime folder of each user
  std::string storage;     // and the images of each user; empty: they are in the user's home
  friend bool operator==(const PodmanSettings&, const PodmanSettings&) = default;
};

// What a shepherd is told.
struct Orders {
  MemberStart member;
  PodmanSettings podman;
  bool control_groups = true;  // false: not even where they could be made
  bool with_secrets = false;   // which come by a descriptor: member.secrets is not written
  friend bool operator==(const Orders&, const Orders&) = default;
};
[[nodiscard]] std::string to_document(const Orders& orders);
[[nodiscard]] Result<Orders> parse_orders(std::string_view text);

// What a descriptor of secrets has in it.
[[nodiscard]] std::string secrets_document(const std::map<std::string, std::string>& secrets);
[[nodiscard]] Result<std::map<std::string, std::string>> parse_secrets(std::string_view text);

// What is known from the moment that somebody looks after the member.
struct Watch {
  sys::ProcessMark shepherd;
  pid_t pid = 0;                    // of the command; 0: it has not started
  std::vector<std::string> groups;  // folders of control groups that it has, or is about to make
  std::string without;              // MemberReport
  friend bool operator==(const Watch&, const Watch&) = default;
};
[[nodiscard]] std::string to_document(const Watch& watch);
[[nodiscard]] Result<Watch> parse_watch(std::string_view text);

// The last word.
struct Ending {
  model::MemberEnd end;
  bool lost = false;  // said by whoever found it, not by its shepherd
  friend bool operator==(const Ending&, const Ending&) = default;
};
[[nodiscard]] std::string to_document(const Ending& ending);
[[nodiscard]] Result<Ending> parse_ending(std::string_view text);

}  // namespace divvy::run
