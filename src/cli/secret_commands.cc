// `divvy secret`: what jobs get as variables and nobody reads again.
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_view.h"
#include "cli/list_view.h"
#include "cli/people_help_texts.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t kLongest = 16'384;

std::string path_of(const std::string& name) { return "/v1/secrets/" + escape_for_url(name); }

// While it lives, what is typed is not shown. Ctrl-C is a character that ends the line: as a signal
// it would leave the terminal without an echo.
class QuietTerminal {
 public:
  QuietTerminal() {
    if (::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios quiet = before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ISIG);
    quiet.c_cc[VEOL] = quiet.c_cc[VINTR];
    changed_ = ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) == 0;
  }
  ~QuietTerminal() {
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  QuietTerminal(const QuietTerminal&) = delete;
  QuietTerminal& operator=(const QuietTerminal&) = delete;

  [[nodiscard]] char interrupt() const { return static_cast<char>(before_.c_cc[VINTR]); }

 private:
  termios before_{};
  bool changed_ = false;
};

// A line in canonical mode: std::getline would go on after the key that ends it.
std::string read_typed() {
  std::string line;
  char buffer[1024];
  ssize_t got = 0;
  do {
    got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got > 0) line.append(buffer, static_cast<std::size_t>(got));
  } while (got == static_cast<ssize_t>(sizeof buffer) && !line.ends_with('\n'));
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

// Nothing: Ctrl-C.
std::optional<std::string> ask_without_echo(const Session& session, const std::string& name) {
  session.err << name << ": " << std::flush;
  std::string line;
  bool interrupted = false;
  {
    const QuietTerminal quiet;
    line = read_typed();
    interrupted = line.find(quiet.interrupt()) != std::string::npos;
  }
  session.err << '\n';
  return interrupted ? std::nullopt : std::optional(std::move(line));
}

// As it was written, without the end of the last line: `echo` and editors add one.
Result<std::string> read_value(std::istream& from, const std::string& what) {
  std::string value(kLongest + 3, '\0');
  from.read(value.data(), static_cast<std::streamsize>(value.size()));
  if (from.bad()) return err(ErrorCode::kIo, "{} cannot be read", what);
  value.resize(static_cast<std::size_t>(from.gcount()));
  if (value.ends_with('\n')) value.pop_back();
  if (value.ends_with('\r')) value.pop_back();
  return value;
}

struct SetArguments {
  std::string name;
  std::string file;
};

Result<int> set(const Session& session, const SetArguments& arguments) {
  std::string value;
  if (!arguments.file.empty()) {
    std::ifstream file(arguments.file);
    if (!file) return err(ErrorCode::kInvalidArgument, "{} cannot be read", arguments.file);
    DIVVY_TRY(read, read_value(file, arguments.file));
    value = std::move(read);
  } else if (::isatty(STDIN_FILENO) != 0) {
    auto typed = ask_without_echo(session, arguments.name);
    if (!typed) return 130;
    value = *std::move(typed);
  } else {
    DIVVY_TRY(read, read_value(std::cin, "standard input"));
    value = std::move(read);
  }
  if (value.empty()) return err(ErrorCode::kInvalidArgument, "a secret cannot be empty");
  if (value.size() > kLongest) {
    return err(ErrorCode::kInvalidArgument, "a secret has at most {} bytes", kLongest);
  }
  const std::string body = json::serialize(json::object{{"value", value}});
  boost::system::error_code failed;
  (void)json::parse(body, failed);
  if (failed || value.find('\0') != std::string::npos) {
    return err(ErrorCode::kInvalidArgument,
               "a secret has to be text in UTF-8; encode it, and decode it in the job: base64 -w0");
  }
  const Asked kept = ask(session, "PUT", path_of(arguments.name), body);
  if (!kept) return kept.status();
  return session.print(fmt::format("secret {0} is kept; --secret {0} gives it to a job\n",
                                   kept.answer()["name"].text()));
}

Result<int> remove(const Session& session, const std::vector<std::string>& names) {
  int status = kExitOk;
  for (const std::string& name : names) {
    const Asked done = ask(session, "DELETE", path_of(name));
    if (done) {
      (void)session.print(fmt::format("secret {} is deleted; jobs that run keep it\n",
                                      done.answer()["name"].text()));
    } else if (status == kExitOk) {
      status = done.status();
    }
  }
  return status;
}

ListColumn when_column() {
  return {
      .header = "SET",
      .cell = [](const Answer& item) { return Cell(moment_text(item["changedUnixMilliseconds"])); },
      .number = [](const Answer& item) { return item["changedUnixMilliseconds"].number(); }};
}

Result<int> list(const Session& session, const std::string& typed) {
  DIVVY_TRY(format, parse_output_format(typed, kListFormats));
  const Asked all = ask(session, "GET", "/v1/secrets");
  if (!all) return all.status();
  ListView view;
  view.name = "name";
  view.nothing = "you have no secrets; `divvy secret set NAME` keeps one";
  view.columns = {text_column("NAME", "name"), when_column()};
  DIVVY_TRY(text, show_list(view, all.body(), format, "", session.style));
  return session.print(text);
}

}  // namespace

void add_secret_commands(CommandTree& tree) {
  CLI::App* secret = tree.add(heading::kPeople, "secret",
                              "Tokens and passwords that jobs get as variables", kSecretFooter);
  auto arguments = std::make_shared<SetArguments>();
  CLI::App* setting =
      tree.add_below(*secret, "set", "Keep a secret, or another value of it", kSecretSetFooter,
                     [arguments](const Session& session) { return set(session, *arguments); });
  setting->add_option("NAME", arguments->name, "What it is called, like HF_TOKEN")->required();
  setting->add_option("--from-file", arguments->file, "Its value is in this file")
      ->type_name("FILE");

  auto format = std::make_shared<std::string>("table");
  CLI::App* listing =
      tree.add_below(*secret, "list", "The names of your secrets", "",
                     [format](const Session& session) { return list(session, *format); });
  add_output(*listing, *format, kListFormats);

  auto names = std::make_shared<std::vector<std::string>>();
  CLI::App* deletion =
      tree.add_below(*secret, "delete", "Forget secrets", "",
                     [names](const Session& session) { return remove(session, *names); });
  deletion->add_option("NAME", *names, "As `divvy secret list` shows them")->required();
}

}  // namespace divvy::cli
