// The commands of `divvy` on the real cluster: a context made from a kubeconfig, and then the same
// words as on a machine.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

class KubeCommands : public KubeSlices {
 protected:
  void SetUp() override {
    KubeSlices::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    home_ = fs::temp_directory_path() / fmt::format("kube-commands-{}", ::getpid());
    fs::create_directories(home_);
    const Outcome added = divvy({"context", "add", "prod", "--kube", "-n", name_space()});
    ASSERT_EQ(added.status, 0) << added.err;
    EXPECT_THAT(added.err, HasSubstr("in namespace " + name_space()));
    ASSERT_EQ(divvy({"context", "use", "prod"}).status, 0);
  }
  void TearDown() override {
    KubeSlices::TearDown();
    if (!home_.empty()) fs::remove_all(home_);
  }

  Outcome divvy(const std::vector<std::string>& words) {
    std::vector<std::string> command = {
        "/usr/bin/env", "DIVVY_CONFIG=" + (home_ / "config.yaml").string(), KUBE_DIVVY};
    command.insert(command.end(), words.begin(), words.end());
    return run(std::move(command));
  }
  // As before; the test fails where the command does.
  std::string says(const std::vector<std::string>& words) {
    const Outcome outcome = divvy(words);
    EXPECT_EQ(outcome.status, 0) << fmt::format("divvy {}: {}", fmt::join(words, " "), outcome.err);
    return outcome.out;
  }
  std::vector<std::string> submit(const std::string& name, const std::string& gpu,
                                  std::vector<std::string> more, const std::string& script) const {
    std::vector<std::string> words = {"submit", "--name", name, "--gpu", gpu, "--image", image_};
    words.insert(words.end(), more.begin(), more.end());
    // The image's own is divvyd.
    for (const char* const word : {"--entry-point", "sh", "--", "-c"}) words.emplace_back(word);
    words.push_back(script);
    return words;
  }

  fs::path home_;
};

TEST_F(KubeCommands, AGangIsSubmittedFollowedAndWaitedFor) {
  const std::string script =
      "echo rank $RANK of $WORLD_SIZE with $MASTER_ADDR; gpuload info; sleep 2";
  const Outcome followed = divvy(submit("ranks", "0.5", {"--members", "2", "--follow"}, script));
  EXPECT_EQ(followed.status, 0) << followed.err;
  for (int rank : {0, 1}) {
    EXPECT_THAT(followed.out, HasSubstr(fmt::format("[{0}] rank {0} of 2 with ranks-", rank)));
  }
  EXPECT_THAT(says({"list", "--all"}), HasSubstr("succeeded"));
  EXPECT_THAT(says({"list"}), Not(HasSubstr("ranks")));
  EXPECT_EQ(divvy({"wait", "ranks", "--for", "succeeded"}).status, 0);
  const std::string again = says({"logs", "ranks", "--rank", "1"});
  EXPECT_THAT(again, HasSubstr("rank 1 of 2"));
  EXPECT_THAT(again, Not(HasSubstr("rank 0")));
  EXPECT_THAT(says({"describe", "ranks"}), HasSubstr("2 x 0.5"));
  EXPECT_THAT(says({"usage", "--by", "queue"}), HasSubstr("default"));
  must({"delete", "jobs", "--all", "--timeout=120s"});
  expect_nothing_left();
}

TEST_F(KubeCommands, WhatFailsHasItsExitStatus) {
  const Outcome failed = divvy(submit("fails", "0.2", {"--wait"}, "echo oh; exit 7"));
  EXPECT_EQ(failed.status, 7) << failed.err;
  EXPECT_THAT(says({"logs", "fails"}), HasSubstr("oh"));
  must({"delete", "jobs", "--all", "--timeout=120s"});
  expect_nothing_left();
}

TEST_F(KubeCommands, GoingIntoAPodIsAsOnAMachine) {
  ASSERT_EQ(
      create_pod("inside", gpuload("0.25", {"sh", "-c", "echo began; exec sleep infinity"})).status,
      0);
  wait_for("pod/inside", "condition=Ready");
  EXPECT_THAT(says({"exec", "inside", "--", "gpuload", "info"}), HasSubstr("devices"));
  EXPECT_EQ(divvy({"exec", "inside", "--", "sh", "-c", "echo oh >&2; exit 3"}).status, 3);
  EXPECT_EQ(divvy({"exec", "inside", "--", "no-such-program"}).status, 127);
  EXPECT_EQ(
      says({"exec", "--cwd", "/tmp", "-e", "A=b c", "inside", "--", "sh", "-c", "echo $PWD $A"}),
      "/tmp b c\n");
  // A file goes there and comes back.
  const fs::path file = home_ / "model.bin";
  std::ofstream(file) << std::string(300'000, 'x') << "end";
  EXPECT_EQ(divvy({"cp", file.string(), "inside:/tmp"}).status, 0);
  EXPECT_EQ(says({"exec", "inside", "--", "sh", "-c", "wc -c < /tmp/model.bin"}), "300003\n");
  EXPECT_EQ(divvy({"cp", "inside:/tmp/model.bin", (home_ / "back.bin").string()}).status, 0);
  EXPECT_EQ(fs::file_size(home_ / "back.bin"), 300'003U);
  delete_pod("inside");
  expect_nothing_left();
}

TEST_F(KubeCommands, ASessionIsAnAppInAPodThatIsOpenedFromHere) {
  fs::create_directories(home_ / "xdg/divvy/apps");
  std::ofstream(home_ / "xdg/divvy/apps/pages.yaml")
      << "run: |\n  mkdir /tmp/pages; printf %s \"$WEB_TOKEN\" | wc -c >/tmp/pages/token\n"
         "  exec busybox httpd -f -p {address}:{port} -h /tmp/pages\n"
         "environment: {WEB_TOKEN: \"{token}\"}\nready: /token\nopen: /token?token={token}\n";
  const fs::path output = home_ / "address";
  // Printed once it answers.
  Program session({"/usr/bin/env", "DIVVY_CONFIG=" + (home_ / "config.yaml").string(),
                   "XDG_CONFIG_HOME=" + (home_ / "xdg").string(), KUBE_DIVVY, "session", "start",
                   "--app", "pages", "--gpu", "0.2", "--image", image_, "--no-browser"},
                  {}, output);
  ASSERT_TRUE(eventually([&] { return session.printed().find('\n') != std::string::npos; }))
      << session.errors();
  const std::string address = session.printed().substr(0, session.printed().find('\n'));
  EXPECT_THAT(address, HasSubstr("/token?token="));
  const Outcome page = run({"/usr/bin/python3", "-c",
                            "import sys, urllib.request as u; "
                            "print(u.urlopen(sys.argv[1]).read().decode().strip())",
                            address});
  EXPECT_EQ(page.out, "32\n") << page.err;
  EXPECT_THAT(says({"session", "list"}), HasSubstr("pages"));
  const std::string token = address.substr(address.find("token=") + 6);
  EXPECT_THAT(must({"get", "pods,jobs", "-o", "yaml"}), Not(HasSubstr(token)));
  EXPECT_EQ(divvy({"session", "extend", "pages"}).status, 2);
  EXPECT_EQ(divvy({"session", "stop", "pages"}).status, 0);
  session.signal(SIGINT);
  EXPECT_EQ(session.finish().status, 0);
  ASSERT_TRUE(eventually([&] {
    return must({"get", "secrets", "-l", "divvy.dev/job", "-o", "name"}).empty();
  })) << "its Secret goes with it";
  expect_nothing_left();
}

TEST_F(KubeCommands, JobsOfOthersAndThoseThatWaitAreSeenAndExplained) {
  for (const char* name : {"a", "b", "c", "d"}) {
    ASSERT_EQ(create_pod(name, gpuload("1", {"sleep", "infinity"})).status, 0);
    wait_for(fmt::format("pod/{}", name), "condition=Ready");
  }
  says(submit("late", "1", {}, "sleep 1000"));
  ASSERT_TRUE(eventually([&] {
    return divvy({"explain", "late"}).out.find("more GPU becomes whole") != std::string::npos;
  })) << divvy({"explain", "late"}).out;
  const std::string list = says({"list", "-o", "wide"});
  EXPECT_THAT(list, HasSubstr("queued"));
  EXPECT_THAT(list, HasSubstr("Job late-"));
  EXPECT_THAT(says({"explain", "a"}), HasSubstr("It does not wait"));
  const std::string gpus = says({"gpus"});
  EXPECT_THAT(gpus, HasSubstr("node-2"));
  EXPECT_THAT(gpus, HasSubstr(name_space() + "/a"));
  EXPECT_THAT(says({"nodes"}), HasSubstr("node-1"));
  EXPECT_THAT(says({"top", "--once"}), HasSubstr("late"));
  EXPECT_THAT(says({"events"}), HasSubstr(name_space() + "/late-"));
  EXPECT_THAT(says({"queue", "list"}), HasSubstr("there are no queues")) << "no Queue objects";
  // A pod ends, and the job comes.
  EXPECT_THAT(says({"delete", "a"}), HasSubstr("cancelled"));
  EXPECT_EQ(divvy({"wait", "late", "--for", "running", "--timeout", "120s"}).status, 0);
  EXPECT_THAT(says({"suspend", "late"}), HasSubstr("job "));
  ASSERT_TRUE(eventually([&] {
    return divvy({"get", "late"}).out.find("suspended") != std::string::npos;
  })) << divvy({"get", "late"}).out;
  says({"resume", "late"});
  EXPECT_EQ(divvy({"wait", "late", "--for", "running", "--timeout", "120s"}).status, 0);
  says({"delete", "late"});
  must({"delete", "pods", "--all", "--timeout=120s"});
  expect_nothing_left();
}

TEST_F(KubeCommands, SomebodyWithRightsInOneNamespaceSeesAndMakesJobsThere) {
  must({"create", "serviceaccount", "dev"});
  must({"create", "rolebinding", "dev", "--clusterrole=edit",
        fmt::format("--serviceaccount={}:dev", name_space())});
  const std::string token = must({"create", "token", "dev"});
  // The administrator's kubeconfig with another user in it.
  const std::string given = must({"config", "view", "--raw", "--flatten", "-o", "json"});
  json::value config = json::parse(given);
  config.at("users").at(0).as_object()["user"] = json::object{{"token", token}};
  const fs::path file = home_ / "dev.kubeconfig";
  std::ofstream(file) << json::serialize(config);
  const Outcome added =
      divvy({"context", "add", "dev", "--kube", "--kubeconfig", file.string(), "-n", name_space()});
  ASSERT_EQ(added.status, 0) << added.err;
  EXPECT_THAT(added.err, HasSubstr("system:serviceaccount:" + name_space() + ":dev"));
  const auto as_dev = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--context", "dev"});
    return words;
  };
  EXPECT_EQ(divvy(as_dev(submit("mine", "0.2", {"--wait"}, "gpuload info"))).status, 0);
  const std::string list = says(as_dev({"list", "--all"}));
  EXPECT_THAT(list, HasSubstr("mine"));
  EXPECT_THAT(says(as_dev({"logs", "mine"})), HasSubstr("memory"));
  const Outcome gpus = divvy(as_dev({"gpus"}));
  EXPECT_NE(gpus.status, 0);
  EXPECT_THAT(gpus.err, HasSubstr("cannot list resource"));
  must({"delete", "jobs", "--all", "--timeout=120s"});
  expect_nothing_left();
}

}  // namespace
}  // namespace divvy::testing
