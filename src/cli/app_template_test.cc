#include "cli/app_template.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <boost/json.hpp>
#include <fstream>

#include "base/temporary_folder.h"
#include "model/job_document.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr const char* kWeb = R"(summary: Pages
program: python3
install: apt-get install python3
run: exec python3 -m http.server {port} --bind {address} "$@"
environment:
  KEY: "{token}"
ready: /
open: /?key={token}
login: "key {token}"
gpu: 0.2
)";

std::string error_of(std::string_view text, const std::string& name = "web") {
  const auto app = read_app(text, name, "web.yaml");
  return app ? "" : app.error().message;
}

TEST(AppTemplate, IsReadFromAFile) {
  const auto app = read_app(kWeb, "web", "web.yaml");
  ASSERT_TRUE(app.has_value()) << app.error().message;
  EXPECT_EQ(app->name, "web");
  EXPECT_EQ(app->summary, "Pages");
  EXPECT_EQ(app->environment.at("KEY"), "{token}");
  EXPECT_EQ(app->gpu, "0.2");
  EXPECT_TRUE(app->is_web());
}

TEST(AppTemplate, ErrorsHaveTheirPlace) {
  EXPECT_EQ(error_of("summary: x\n"),
            "web.yaml:1:1: the field run is missing: the line that sh executes");
  EXPECT_EQ(error_of("runs: x\n"), "web.yaml:1:1: an app has no field runs; did you mean run?");
  EXPECT_EQ(error_of("run: [a, b]\n"), "web.yaml:1:6: run: this has to be a text");
  EXPECT_EQ(error_of("run: a\nopen: lab\n"),
            "web.yaml:2:7: open: a path of HTTP begins with / and has no spaces");
  EXPECT_EQ(error_of("run: a\nready: \"/x\\r\\nHost: y\"\n"),
            "web.yaml:2:8: ready: a path of HTTP begins with / and has no spaces");
  EXPECT_EQ(error_of("run: a\nenvironment: x\n"),
            "web.yaml:2:14: environment: this has names and texts, like NAME: text");
  EXPECT_NE(error_of("just a text"), "");
  EXPECT_NE(error_of("run: a\n", "no name"), "");
}

TEST(AppTemplate, BuiltInOnesAreJobs) {
  for (const AppTemplate& app : built_in_apps()) {
    for (const bool contained : {false, true}) {
      json::object document;
      if (contained) document["container"] = json::object{{"image", "box"}};
      ASSERT_TRUE(
          put_app(app,
                  {.token = "secret",
                   .arguments = {},
                   .published = contained ? std::optional<std::uint16_t>(20'001) : std::nullopt},
                  document));
      const auto spec = model::read_job_spec(json::serialize(document));
      ASSERT_TRUE(spec.has_value()) << app.name << ": " << spec.error().message;
      const Status good = model::check(*spec);
      EXPECT_TRUE(good.has_value()) << app.name << ": " << good.error().message;
      EXPECT_EQ(spec->labels.at(std::string(kSessionLabel)), app.name);
      EXPECT_EQ(spec->environment.at(std::string(kSessionToken)), "secret");
      for (const std::string& word : spec->command) {
        EXPECT_EQ(word.find("secret"), std::string::npos) << "others see the words of a command";
        EXPECT_EQ(word.find('{') != std::string::npos && word.find("{port}") != std::string::npos,
                  false);
      }
    }
  }
}

TEST(AppTemplate, ContainersPublishTheirPort) {
  const AppTemplate app = read_app(kWeb, "web", "web.yaml").value();
  json::object document{{"container", {{"image", "box"}}}};
  ASSERT_TRUE(put_app(app, {.token = "t", .arguments = {"x"}, .published = 20'001}, document));
  EXPECT_EQ(json::serialize(document["container"]),
            R"({"image":"box","entry_point":["sh"],"ports":[{"host":20001,"container":8000}]})");
  EXPECT_EQ(document["environment"].at("DIVVY_PUBLISH"), "loopback") << "and for nobody elsewhere";
  const json::array& command = document["command"].as_array();
  EXPECT_EQ(command.front(), "-c") << "the entry point is the shell";
  EXPECT_NE(command.at(1).as_string().find("8000 --bind 0.0.0.0"), json::string::npos);
  EXPECT_EQ(command.back(), "x");
}

TEST(AppTemplate, PodsListenOnTheirLoopback) {
  const AppTemplate app = read_app(kWeb, "web", "web.yaml").value();
  json::object document{{"container", {{"image", "box"}}}};
  ASSERT_TRUE(
      put_app(app, {.token = "t", .arguments = {"x"}, .published = {}, .in_pod = true}, document));
  EXPECT_EQ(json::serialize(document["container"]), R"({"image":"box","entry_point":["sh"]})");
  EXPECT_EQ(document["labels"].at(kSessionPortLabel), "8000");
  EXPECT_FALSE(document["environment"].as_object().contains("DIVVY_PUBLISH"));
  EXPECT_NE(document["command"].at(1).as_string().find("8000 --bind 127.0.0.1"), json::string::npos)
      << "other pods do not reach it";
}

// What sh makes of it: the words of an app and of its messages are never parts of the script.
TEST(AppTemplate, TheScriptRunsWithItsArguments) {
  TemporaryFolder folder;
  AppTemplate app{.name = "echo",
                  .summary = "",
                  .program = "sh",
                  .install = "",
                  .run = "printf '%s|' {port} {address} \"$@\" >out",
                  .environment = {},
                  .ready = "",
                  .open = "/",
                  .login = ""};
  const auto run = [&](const AppTemplate& which, const std::vector<std::string>& arguments) {
    json::object document;
    EXPECT_TRUE(put_app(which, {.token = "t", .arguments = arguments, .published = {}}, document));
    std::string line = "cd " + folder.string() + " && DIVVY_PORT=20005 exec";
    for (const json::value& word : document["command"].as_array()) {
      std::string quoted = "'";
      for (const char letter : word.as_string()) {
        quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
      }
      line += " " + quoted + "'";
    }
    return WEXITSTATUS(::system((line + " 2>err").c_str()));
  };
  const auto text_of = [&](const char* name) {
    std::ifstream stream(folder / name);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  EXPECT_EQ(run(app, {"a b", "$(id)", "'"}), 0);
  EXPECT_EQ(text_of("out"), "20005|127.0.0.1|a b|$(id)|'|");

  app.program = "no-such'program";
  app.install = "pip install 'x' $(id)";
  EXPECT_EQ(run(app, {}), 127);
  EXPECT_EQ(text_of("err"), "no-such'program is not there; get it with pip install 'x' $(id)\n");
}

TEST(AppTemplate, ArgumentsForOneThatTakesNoneAreRefused) {
  json::object document;
  const AppTemplate& shell = built_in_apps().back();
  const Status refused =
      put_app(shell, {.token = "t", .arguments = {"x"}, .published = {}}, document);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message, "the app shell takes no arguments");
}

TEST(Apps, FilesGoBeforeBuiltInOnesAndFirstFoldersFirst) {
  TemporaryFolder folder;
  for (const char* each : {"mine", "theirs"}) std::filesystem::create_directory(folder / each);
  std::ofstream(folder / "mine/jupyter.yaml") << "summary: mine\nrun: exec a\n";
  std::ofstream(folder / "theirs/jupyter.yaml") << "summary: theirs\nrun: exec a\n";
  std::ofstream(folder / "theirs/bad.yaml") << "rum: exec a\n";
  std::ofstream(folder / "theirs/notes.txt") << "not an app";
  const Apps apps = find_apps({folder / "mine", folder / "theirs", folder / "nowhere"});
  EXPECT_EQ(apps.by_name.at("jupyter").summary, "mine");
  EXPECT_TRUE(apps.by_name.contains("code"));
  EXPECT_FALSE(apps.by_name.contains("bad"));
  ASSERT_EQ(apps.troubles.size(), 1U);
  EXPECT_TRUE(
      apps.troubles[0].ends_with("bad.yaml:1:1: an app has no field rum; did you mean run?"))
      << apps.troubles[0];
}

}  // namespace
}  // namespace divvy::cli
