#include "cli/on_this_machine.h"

#include "cli/command_tree.h"
#include "cli/session.h"

namespace divvy::cli {

Status check_on_this_machine(const Session& session, std::string_view instead) {
  DIVVY_TRY(daemon, session.daemon());
  if (daemon.is_cluster()) {
    return err(ErrorCode::kInvalidArgument,
               "`{}` is about one machine, and the context is a cluster: run it on the machine{}, "
               "or add --context local for this one",
               full_name(session.command),
               instead.empty() ? "" : fmt::format(", use `{}`", instead));
  }
  const auto& remote = daemon.options().remote;
  if (!remote || !remote->network) return {};
  const std::string command = full_name(session.command);
  return err(ErrorCode::kInvalidArgument,
             "`{}` works only on the machine that it is about: log in on {} and run it there{}, or "
             "add --context local for this machine",
             command, remote->network->host,
             instead.empty() ? "" : fmt::format(", use `{}`", instead));
}

}  // namespace divvy::cli
