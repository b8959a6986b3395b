#include "cli/ssh_visit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <csignal>

#include "base/text.h"
#include "cli/detach.h"
#include "cli/exit_codes.h"
#include "cli/member_stream.h"
#include "cli/member_visit.h"
#include "cli/raw_terminal.h"
#include "cli/session.h"
#include "cli/ssh_config.h"
#include "cli/ssh_member.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kLongestName = 256;

}  // namespace

int serve_ssh(const Session& session, const MemberPlace& place, const SshKeys::Handover& keys,
              const std::string& user) {
  // ssh ends this process with SIGHUP, and the sshd is to hear of it at once.
  auto signals = SignalPipe::create({SIGINT, SIGTERM, SIGHUP});
  if (!signals) return session.fail(signals.error());
  (void)std::signal(SIGPIPE, SIG_IGN);
  auto stream = MemberStream::open(
      session, place, {{"kind", "exec"}, {"command", boost::json::value_from(sshd_command(user))}},
      signals->fd());
  if (!stream) return stream.error();
  const bool is_seen = ::isatty(STDERR_FILENO) == 1;
  const auto end = stream->run({.ends = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO},
                                .first_input = sshd_first_input(keys),
                                .signals = &*signals,
                                .signals_stop = true,
                                .on_loss = [&](bool lost) {
                                  // The terminal is ssh's, which may have handed it through.
                                  if (is_seen) say_loss(session, lost, true);
                                }});
  if (!end && end.error().code == ErrorCode::kNotFound && stream->was_refused()) {
    session.say("there is no shell in this job, with which sshd is started");
    return kExitNoSuchCommand;
  }
  if (!end) return session.fail(end.error());
  if (!*end) return kExitDetached;
  return (*end)->exit_code == 0 && (*end)->signal == 0 ? kExitOk : kExitError;
}

tl::expected<std::optional<std::string>, int> user_in_member(const Session& session,
                                                             const MemberPlace& place) {
  auto signals = SignalPipe::create({SIGINT, SIGTERM, SIGHUP});
  if (!signals) return tl::unexpected(session.fail(signals.error()));
  auto stream = MemberStream::open(session, place, {{"kind", "exec"}, {"command", {"id", "-un"}}},
                                   signals->fd());
  if (!stream) return tl::unexpected(stream.error());
  // It is a tenant who says it.
  std::string said;
  bool too_much = false;
  const auto end = stream->run({.ends = {},
                                .on_output = [&](const std::string& bytes) -> Status {
                                  said += bytes;
                                  too_much = said.size() > kLongestName;
                                  if (too_much) return err(ErrorCode::kDataLoss, "no name");
                                  return {};
                                },
                                .signals = &*signals,
                                .signals_stop = true});
  if (!end && !too_much && !stream->was_refused()) {
    return tl::unexpected(session.fail(end.error()));
  }
  if (end && !*end) return tl::unexpected(kExitDetached);
  std::string name(trim(said));
  if (!end || (*end)->exit_code != 0 || !is_plain_user(name)) return std::optional<std::string>();
  return std::optional(std::move(name));
}

}  // namespace divvy::cli
