// What a session runs: a program that people work with in a browser or a terminal, as a job. Ours
// are built in; an operator adds others as files (docs/sessions.md). Pure apart from find_app(),
// callable from any thread; any bytes are safe to pass.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/template_files.h"
#include "model/session_label.h"

namespace divvy::cli {

using model::kSessionLabel;
using model::kSessionPortLabel;
using model::kSessionToken;

struct AppTemplate {
  std::string name;
  std::string summary;
  std::string program;  // has to be found where the job runs; empty: whatever `run` finds
  std::string install;  // how to come by it, for those who do not have it
  std::string run;      // a line for sh; what was typed behind -- is its "$@"
  std::map<std::string, std::string> environment;
  std::string ready;  // a path that is answered once it is ready; empty: when it listens
  std::string open;   // what follows http://127.0.0.1:PORT; empty: it is for a terminal
  std::string login;  // what a person has to type there, if anything
  std::string gpu = "0";

  [[nodiscard]] bool is_web() const { return !open.empty(); }
  friend bool operator==(const AppTemplate&, const AppTemplate&) = default;
};

// Errors are "FILE:3:5: what", one line for each.
[[nodiscard]] Result<AppTemplate> read_app(std::string_view text, const std::string& name,
                                           const std::string& file);
[[nodiscard]] const std::vector<AppTemplate>& built_in_apps();

// All that there are, by name; of several with one name the first. A file that cannot be read is in
// `troubles` instead.
struct Apps {
  std::map<std::string, AppTemplate> by_name;
  std::vector<std::string> troubles;
};
[[nodiscard]] Apps find_apps(const TemplateFolders& folders);

struct AppLaunch {
  std::string token;  // a secret of this session alone
  std::vector<std::string> arguments;
  // In a container: where its port is on the machine.
  std::optional<std::uint16_t> published;
  bool in_pod = false;  // in a container whose loopback is reached through the cluster
};
// Adds to the document of a job what makes it this app; what stands in it already goes first.
// kInvalidArgument: arguments for an app that takes none.
[[nodiscard]] Status put_app(const AppTemplate& app, const AppLaunch& launch,
                             boost::json::object& document);
// "{token}" in `open` and `login`.
[[nodiscard]] std::string with_token(std::string text, std::string_view token);

// The port in a container.
inline constexpr std::uint16_t kContainerPort = 8000;

}  // namespace divvy::cli
