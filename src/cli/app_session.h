// A session: a job that runs an app, and the way to it from here. Runs on the main thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "cli/answer.h"
#include "cli/app_template.h"
#include "cli/member_place.h"

namespace divvy::cli {

struct Session;
class Daemon;

// Below XDG_CONFIG_HOME or HOME for oneself, and the operator's for everybody.
[[nodiscard]] TemplateFolders app_folders(const Session& session);

// What the document of a job says of the session that it is; nothing: it is none.
struct AppSession {
  std::uint64_t job = 0;
  std::string app;
  std::string token;
  std::uint16_t port = 0;  // of the member
};
[[nodiscard]] std::optional<AppSession> app_session_of(const Answer& job);

struct OpenWish {
  std::uint16_t local_port = 0;  // 0: any that is free
  std::string address = "127.0.0.1";
  bool browser = true;
};
// Waits until the app answers, says where it is, and passes connections on until Ctrl-C; or is the
// terminal. The exit status.
[[nodiscard]] int open_session(const Session& session, const AppTemplate& app, AppSession opened,
                               const OpenWish& wish);
// With the last lines that it wrote.
void say_how_it_ended(const Session& session, const AppTemplate& app, std::uint64_t job,
                      const std::string& state);

}  // namespace divvy::cli
