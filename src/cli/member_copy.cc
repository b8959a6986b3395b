// Copies between this machine's files and a member: tar on both sides, joined by a stream.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/unique_fd.h"
#include "cli/detach.h"
#include "cli/exit_codes.h"
#include "cli/member_visit.h"
#include "cli/raw_terminal.h"
#include "cli/session.h"
#include "sys/exec_pointers.h"
#include "sys/pipe.h"

extern char** environ;

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;

// tar with one of its streams in the pipe.
Result<pid_t> start_tar(std::vector<std::string> words, int fd, int as) {
  words.insert(words.begin(), "tar");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, fd, as);
  pid_t pid = 0;
  const int failed =
      ::posix_spawnp(&pid, "tar", &actions, nullptr, sys::exec_pointers(words).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return err(ErrorCode::kNotFound, "tar is needed on this machine: {}", std::strerror(failed));
  }
  return pid;
}

bool succeeded(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Moves bytes between the pipe of our tar and the other one until that has ended; what it had to
// say goes to standard error. kCancelled: somebody pressed Ctrl-C.
Status pass_on(const Session& session, MemberStream& stream, MemberStream::Ends ends,
               std::string_view advice = "") {
  // So that the other tar hears of it at once.
  auto signals = SignalPipe::create({SIGINT, SIGTERM, SIGHUP});
  if (!signals) return err(signals.error());
  // Our tar may end before it has read everything, which is an error of ours to tell.
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const auto end = stream.run(
      {.ends = ends, .signals = &*signals, .signals_stop = true, .on_loss = [&](bool lost) {
         say_loss(session, lost, false);
       }});
  (void)std::signal(SIGPIPE, before);
  if (!end) return err(end.error());
  if (!*end) return err(ErrorCode::kCancelled, "the copy was broken off; a part may be there");
  if ((*end)->exit_code == 0 && (*end)->signal == 0) return {};
  if ((*end)->exit_code == 127) {
    return err(ErrorCode::kUnsupported, "the job has no tar, with which copies are made inside");
  }
  return err(ErrorCode::kIo, "tar in the job ended with {}{}",
             (*end)->signal != 0 ? fmt::format("signal {}", (*end)->signal)
                                 : fmt::format("status {}", (*end)->exit_code),
             advice);
}

int fail_copy(const Session& session, const Error& error) {
  const int status = session.fail(error);
  return error.code == ErrorCode::kCancelled ? kExitDetached : status;
}

// "a/b/" and "a/b" are the same thing to copy.
fs::path without_slash(const fs::path& path) {
  return path.has_filename() || !path.has_parent_path() ? path : path.parent_path();
}

}  // namespace

int copy_from_member(const Session& session, const MemberPlace& place, const std::string& from,
                     const std::string& to) {
  auto pipe = sys::make_pipe();
  if (!pipe) return session.fail(pipe.error());
  // As cp does it: into a folder that is there, otherwise as a thing of that name.
  std::error_code code;
  const bool into = fs::is_directory(to, code);
  const fs::path target = without_slash(fs::path(to));
  const fs::path folder = into                       ? fs::path(to)
                          : target.has_parent_path() ? target.parent_path()
                                                     : ".";
  const std::string name = without_slash(fs::path(from)).filename().string();
  std::vector<std::string> words{"--extract",       "--file",      "-",
                                 "--no-same-owner", "--directory", folder.string()};
  if (!into && name != target.filename()) {
    // Only the first part of each name is another one; '|' is in no name that we take.
    if (name.find('|') != std::string::npos || to.find('|') != std::string::npos) {
      session.say("a name with | in it cannot be copied to another name");
      return kExitUsage;
    }
    std::string pattern;
    for (const char c : name) {
      if (std::string_view("\\.*[]^$").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
    std::string replacement;
    for (const char c : target.filename().string()) {
      if (c == '\\' || c == '&') replacement += '\\';
      replacement += c;
    }
    words.push_back(fmt::format("--transform=s|^{}|{}|S", pattern, replacement));
  }
  auto stream = MemberStream::open(session, place, {{"kind", "copy-out"}, {"path", from}});
  if (!stream) return stream.error();
  const auto tar = start_tar(std::move(words), pipe->reader.get(), STDIN_FILENO);
  if (!tar) return session.fail(tar.error());
  pipe->reader.reset();
  const Status sent =
      pass_on(session, *stream, {.output = pipe->writer.get(), .error = STDERR_FILENO});
  pipe->writer.reset();
  const bool taken = succeeded(*tar);
  if (!sent) return fail_copy(session, sent.error());
  return taken ? kExitOk : kExitError;
}

int copy_to_member(const Session& session, const MemberPlace& place, const std::string& from,
                   const std::string& to) {
  std::error_code code;
  if (!fs::exists(from, code)) {
    session.say(from + ": no such file or folder");
    return kExitNotFound;
  }
  auto pipe = sys::make_pipe();
  if (!pipe) return session.fail(pipe.error());
  auto stream = MemberStream::open(session, place, {{"kind", "copy-in"}, {"path", to}});
  if (!stream) return stream.error();
  const fs::path source = without_slash(fs::absolute(from));
  const auto tar = start_tar({"--create", "--file", "-", "--directory",
                              source.parent_path().string(), "--", source.filename().string()},
                             pipe->writer.get(), STDOUT_FILENO);
  if (!tar) return session.fail(tar.error());
  pipe->writer.reset();
  const Status taken =
      pass_on(session, *stream,
              {.input = pipe->reader.get(), .output = STDOUT_FILENO, .error = STDERR_FILENO},
              fmt::format("; {} has to be a folder that is there", to));
  pipe->reader.reset();
  const bool sent = succeeded(*tar);
  if (!taken) return fail_copy(session, taken.error());
  return sent ? kExitOk : kExitError;
}

}  // namespace divvy::cli
