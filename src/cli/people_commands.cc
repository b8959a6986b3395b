// Commands about people and their tokens: user, token, whoami.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/unique_fd.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_view.h"
#include "cli/list_view.h"
#include "cli/people_help_texts.h"
#include "cli/session.h"
#include "model/name.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr OutputFormat kTextFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                         OutputFormat::kYaml};

ListColumn moment_column(std::string header, const std::string& field) {
  return {.header = std::move(header),
          .cell = [field](const Answer& item) { return Cell(moment_text(item[field])); },
          .number = [field](const Answer& item) { return item[field].number(); }};
}

ListView people_view() {
  ListView view;
  view.name = "name";
  view.nothing = "nobody was added; users of this machine need not be";
  view.columns = {text_column("NAME", "name"),
                  text_column("ROLE", "role"),
                  number_column("UID", "uid"),
                  moment_column("CREATED", "createdUnixMilliseconds"),
                  {.header = "STATE", .cell = [](const Answer& person) {
                     return person["disabled"].flag() ? Cell("disabled", Color::kRed)
                                                      : Cell("active");
                   }}};
  return view;
}

ListView token_view(bool everybody) {
  ListView view;
  view.name = "id";
  view.nothing = fmt::format("{} no tokens; on this machine's socket none is needed",
                             everybody ? "there are" : "you have");
  view.columns = {text_column("ID", "id"),
                  text_column("USER", "user"),
                  text_column("LABEL", "label"),
                  moment_column("CREATED", "createdUnixMilliseconds"),
                  moment_column("EXPIRES", "expiresUnixMilliseconds"),
                  moment_column("LAST USED", "lastUsedUnixMilliseconds"),
                  moment_column("REVOKED", "revokedUnixMilliseconds")};
  return view;
}

Result<int> show(const Session& session, const std::string& path, const ListView& view,
                 const std::string& typed) {
  DIVVY_TRY(format, parse_output_format(typed, kListFormats));
  const Asked asked = ask(session, "GET", path);
  if (!asked) return asked.status();
  DIVVY_TRY(text, show_list(view, asked.body(), format, "", session.style));
  return session.print(text);
}

struct UserArguments {
  std::string name;
  std::string role;
  std::optional<std::uint32_t> uid;
  bool disable = false;
  bool enable = false;
};

json::object person_body(const UserArguments& arguments) {
  json::object body;
  if (!arguments.role.empty()) body["role"] = arguments.role;
  if (arguments.uid) body["uid"] = *arguments.uid;
  if (arguments.disable || arguments.enable) body["disabled"] = arguments.disable;
  return body;
}

int say_person(const Session& session, const Asked& done) {
  if (!done) return done.status();
  const std::string role = done.answer()["role"].text();
  const std::string uid = done.answer()["uid"].text();
  return session.print(fmt::format("{} is {} {}{}{}\n", done.answer()["name"].text(),
                                   role == "admin" ? "an" : "a", role,
                                   uid.empty() ? "" : ", on this machine uid " + uid,
                                   done.answer()["disabled"].flag() ? ", disabled" : ""));
}

void add_user(CommandTree& tree) {
  CLI::App* user =
      tree.add(heading::kPeople, "user", "Users and their roles; for operators", kUserFooter);
  auto format = std::make_shared<std::string>("table");
  CLI::App* list =
      tree.add_below(*user, "list", "Who there is", "", [format](const Session& session) {
        return show(session, "/v1/people", people_view(), *format);
      });
  add_output(*list, *format, kListFormats);

  auto arguments = std::make_shared<UserArguments>();
  CLI::App* add = tree.add_below(
      *user, "add", "Add a user", "", [arguments](const Session& session) -> Result<int> {
        DIVVY_RETURN_IF_ERROR(model::check_name("user", arguments->name));
        json::object body = person_body(*arguments);
        body["name"] = arguments->name;
        return say_person(session, ask(session, "POST", "/v1/people", json::serialize(body)));
      });
  CLI::App* set = tree.add_below(
      *user, "set", "Change a user", "", [arguments](const Session& session) -> Result<int> {
        if (arguments->disable && arguments->enable) {
          return err(ErrorCode::kInvalidArgument, "--disable and --enable exclude each other");
        }
        const json::object body = person_body(*arguments);
        if (body.empty()) {
          return err(ErrorCode::kInvalidArgument,
                     "nothing to change was named: --role, --uid, --disable or --enable");
        }
        return say_person(session,
                          ask(session, "PATCH", "/v1/people/" + escape_for_url(arguments->name),
                              json::serialize(body)));
      });
  CLI::App* remove = tree.add_below(
      *user, "remove", "Remove a user and their tokens; their jobs stay", "",
      [arguments](const Session& session) -> Result<int> {
        const Asked done = ask(session, "DELETE", "/v1/people/" + escape_for_url(arguments->name));
        return done ? session.print(arguments->name + " is removed\n") : done.status();
      });
  for (CLI::App* command : {add, set, remove}) {
    command->add_option("USER", arguments->name, "The name")->required();
  }
  for (CLI::App* command : {add, set}) {
    command->add_option("--role", arguments->role, "What they may do: user or admin")
        ->type_name("ROLE");
    command->add_option("--uid", arguments->uid, "Who it is on this machine")->type_name("NUMBER");
  }
  set->add_flag("--disable", arguments->disable, "Refuse them");
  set->add_flag("--enable", arguments->enable, "Let them in again");
}

struct TokenArguments {
  std::string user;
  std::string label;
  std::string expires;
  std::string file;
};

// Readable for nobody else, and never over a file that is there.
Status save_token(const std::string& file, const std::string& token) {
  UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const std::string line = token + "\n";
  if (!fd || ::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return err(ErrorCode::kIo, "{}: {}", file, std::strerror(errno));
  }
  return {};
}

Result<int> create_token(const Session& session, const TokenArguments& arguments) {
  if (!arguments.file.empty() && ::access(arguments.file.c_str(), F_OK) == 0) {
    return err(ErrorCode::kInvalidArgument, "{} is there already", arguments.file);
  }
  json::object body;
  if (!arguments.user.empty()) body["user"] = arguments.user;
  if (!arguments.label.empty()) body["label"] = arguments.label;
  if (!arguments.expires.empty()) body["expires_in"] = arguments.expires;
  const Asked made = ask(session, "POST", "/v1/tokens", json::serialize(body));
  if (!made) return made.status();
  const std::string token = made.answer()["token"].raw();
  if (!arguments.file.empty()) {
    if (const Status saved = save_token(arguments.file, token); !saved) {
      return session.fail(saved.error());
    }
    return session.print("token " + made.answer()["id"].text() + " is in " + arguments.file + "\n");
  }
  session.say("this is the only time that it is shown; keep it as a password");
  return session.print(token + "\n");
}

void add_token(CommandTree& tree) {
  CLI::App* token =
      tree.add(heading::kPeople, "token", "Tokens, for asking from elsewhere", kTokenFooter);
  struct ListArguments {
    std::string format = "table";
    bool everybody = false;
  };
  auto listing = std::make_shared<ListArguments>();
  CLI::App* list =
      tree.add_below(*token, "list", "Your tokens", "", [listing](const Session& session) {
        return show(session, listing->everybody ? "/v1/tokens?everybody=true" : "/v1/tokens",
                    token_view(listing->everybody), listing->format);
      });
  list->add_flag("--everybody", listing->everybody, "Everybody's; for operators");
  add_output(*list, listing->format, kListFormats);

  auto arguments = std::make_shared<TokenArguments>();
  CLI::App* create = tree.add_below(
      *token, "create", "Make a token and print it, once", "",
      [arguments](const Session& session) { return create_token(session, *arguments); });
  create->add_option("--user", arguments->user, "For somebody else; for operators")
      ->type_name("USER");
  create->add_option("--label", arguments->label, "What it is for")->type_name("TEXT");
  create->add_option("--expires", arguments->expires, "Good for so long: 30d")->type_name("TIME");
  create->add_option("--to", arguments->file, "Into this new file, which only you can read")
      ->type_name("FILE");

  auto id = std::make_shared<std::string>();
  CLI::App* revoke = tree.add_below(
      *token, "revoke", "Refuse a token from now on", "",
      [id](const Session& session) -> Result<int> {
        const Asked done = ask(session, "DELETE", "/v1/tokens/" + escape_for_url(*id));
        return done ? session.print("token " + *id + " is revoked\n") : done.status();
      });
  revoke->add_option("TOKEN", *id, "As `divvy token list` shows it")->required();
}

}  // namespace

void add_people_commands(CommandTree& tree) {
  add_user(tree);
  add_token(tree);
  auto format = std::make_shared<std::string>("table");
  CLI::App* whoami =
      tree.add(heading::kPeople, "whoami", "Who divvyd takes you for", "",
               [format](const Session& session) -> Result<int> {
                 DIVVY_TRY(wanted, parse_output_format(*format, kTextFormats));
                 const Asked me = ask(session, "GET", "/v1/whoami");
                 if (!me) return me.status();
                 if (wanted != OutputFormat::kTable) {
                   return session.print(write_document(me.body(), wanted));
                 }
                 return session.print(fmt::format("{} ({})\n", me.answer()["name"].text(),
                                                  me.answer()["role"].text()));
               });
  add_output(*whoami, *format, kTextFormats);
}

}  // namespace divvy::cli
