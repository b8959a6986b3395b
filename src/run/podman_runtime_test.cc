#include "run/podman_runtime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace divvy::run {
namespace {

MemberStart contained() {
  MemberStart member;
  member.key = {model::JobId(7), 1, 0};
  member.command = {"train", "--epochs", "3"};
  member.uid = 1000;
  member.gid = 1001;
  member.container.emplace();
  member.container->image = "localhost/x:1";
  return member;
}

PodmanMember podman_of(PodmanUser user) {
  PodmanMember podman;
  podman.settings.program = {"podman", "--root", "/r"};
  podman.name = "divvy-job-7.1.0-0";
  podman.user = user;
  podman.uids = podman.gids = 65'536;
  return podman;
}
const PodmanMember kPodman = podman_of(PodmanUser::kRoot);

Words words_of(const MemberStart& member, const PodmanMember& podman = kPodman) {
  const auto words = podman_run(podman, member, {}, "/f/variables");
  EXPECT_TRUE(words) << words.error().message;
  return words.value_or(Words());
}

bool has(const Words& words, const Words& piece) {
  return std::ranges::search(words, piece).begin() != words.end();
}

TEST(SecretVariables, AreLinesOfAFileOrRefusedNeverWordsOfACommand) {
  EXPECT_EQ(secret_variables({{"A", "hf_1=2 3"}, {"B", ""}}), "A=hf_1=2 3\nB=\n");
  for (const char* const value : {"hf_two\nlines", "hf_\"b", "hf_'b", "hf_`b", "hf_\\b", " hf_"}) {
    const auto refused = secret_variables({{"HUB", value}});
    ASSERT_FALSE(refused.has_value()) << value;
    EXPECT_TRUE(refused.error().message.starts_with("secrets.HUB: ")) << refused.error().message;
    EXPECT_EQ(refused.error().message.find("hf_"), std::string::npos);
  }
}

TEST(PodmanRun, NamesTheImageAfterEveryOptionAndTheCommandAfterTheImage) {
  const Words words = words_of(contained());
  EXPECT_EQ(fmt::format("{}", fmt::join(words, " ")),
            "podman --root /r run --name divvy-job-7.1.0-0 --label divvy.dev/member=job-7.1.0 "
            "--log-driver none --user 1000:1001 --security-opt no-new-privileges --network host -- "
            "localhost/x:1 train --epochs 3");
  MemberStart sly = contained();
  sly.uid = 0;
  sly.container->image = "--privileged";
  const Words harmless = words_of(sly);
  EXPECT_TRUE(has(harmless, {"--", "--privileged"}));
}

TEST(PodmanRun, GivesDevicesMountsPortsAndLimits) {
  MemberStart member = contained();
  member.cdi_devices = {"divvy.dev/slice=job-7.1.0"};
  member.working_directory = "/work";
  member.groups = {44};
  member.keep_input = true;
  member.container->mounts = {{"/data", "/d", true}, {"/out", "/o", false}};
  member.container->ports = {{8080, 80}};
  member.limits.cpu_milli = 1'050;
  member.limits.ram = mib(64);
  member.limits.pids = 10;
  member.limits.shm = mib(8);
  member.limits.ulimits = {{"nofile", {100, 200}}};
  const Words words = words_of(member);
  for (const Words& piece :
       std::vector<Words>{{"--device", "divvy.dev/slice=job-7.1.0"},
                          {"--mount", "type=bind,source=/data,destination=/d,ro=true"},
                          {"--mount", "type=bind,source=/out,destination=/o,ro=false"},
                          {"--publish", "8080:80"},
                          {"--cpus", "1.050"},
                          {"--memory", "67108864b"},
                          {"--memory-swap", "67108864b"},
                          {"--pids-limit", "10"},
                          {"--shm-size", "8388608b"},
                          {"--ulimit", "nofile=100:200"},
                          {"--workdir", "/work"},
                          {"--group-add", "44"},
                          {"--interactive"}}) {
    EXPECT_TRUE(has(words, piece)) << piece.back();
  }
  EXPECT_FALSE(has(words, {"--network"})) << "ports are published from a network of its own";
}

TEST(PodmanRun, PublishesForTheMachineAloneWhereTheJobSaysSo) {
  MemberStart member = contained();
  member.container->ports = {{8080, 80}};
  member.environment["DIVVY_PUBLISH"] = "loopback";
  EXPECT_TRUE(has(words_of(member), {"--publish", "127.0.0.1:8080:80"}));
  member.environment["DIVVY_PUBLISH"] = "0.0.0.0:1:1 --privileged";
  EXPECT_TRUE(has(words_of(member), {"--publish", "8080:80"}));
}

TEST(PodmanRun, ReplacesTheEntryPoint) {
  MemberStart member = contained();
  member.container->entry_point = Words{"/init", "-v"};
  EXPECT_TRUE(
      has(words_of(member), {"--entrypoint", "/init", "--", "localhost/x:1", "-v", "train"}));
  member.container->entry_point = Words{};
  EXPECT_TRUE(has(words_of(member), {"--entrypoint", "", "--", "localhost/x:1", "train"}));
}

TEST(PortOnMachine, IsWhereThePortOfTheMemberCanBeReached) {
  Orders process;
  EXPECT_EQ(port_on_machine(process, 8888), 8888);
  Orders container{.member = contained(), .podman = {}};
  EXPECT_EQ(port_on_machine(container, 8888), 8888) << "it has the machine's network";
  container.member.container->ports = {{.host = 9001, .container = 80}};
  EXPECT_EQ(port_on_machine(container, 80), 9001);
  const auto other = port_on_machine(container, 9001);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kFailedPrecondition);
  // Whoever is kept off the machine's network does not get there by a detour.
  Orders apart{.member = contained(), .podman = {}};
  apart.podman.run_options = {"--network=none"};
  EXPECT_FALSE(port_on_machine(apart, 8888));
}

TEST(PodmanRun, LeavesTheNetworkToTheOperator) {
  PodmanMember podman = kPodman;
  podman.settings.run_options = {"--network", "none"};
  const Words words = words_of(contained(), podman);
  EXPECT_TRUE(has(words, {"--network", "none"}));
  EXPECT_FALSE(has(words, {"--network", "host"}));
}

TEST(PodmanRun, WithoutRootIsTheSameUserInsideAndOutside) {
  EXPECT_TRUE(has(words_of(contained(), podman_of(PodmanUser::kDaemon)),
                  {"--userns", "keep-id", "--user"}));
}

TEST(PodmanRun, OfTheMembersUserMapsThatUserToItself) {
  PodmanMember podman = podman_of(PodmanUser::kMember);
  MemberStart member = contained();
  member.limits.ram = mib(64);
  member.limits.cpu_milli = 1'000;
  member.limits.pids = 10;
  member.limits.ulimits = {{"memlock", {model::Ulimit::kUnlimited, model::Ulimit::kUnlimited}}};
  member.groups = {44};
  member.container->image = "oci-archive:/home/ada/x.tar";
  const Words words = words_of(member, podman);
  EXPECT_TRUE(has(words, {"--uidmap", "0:1:1000", "--uidmap", "1000:0:1", "--uidmap",
                          "1001:1001:64536", "--gidmap", "0:1:1001", "--gidmap", "1001:0:1",
                          "--gidmap", "1002:1002:64535", "--user", "1000:1001"}))
      << fmt::format("{}", fmt::join(words, " "));
  EXPECT_TRUE(has(words, {"--ulimit", "memlock=-1:-1"}));
  for (const char* left_out : {"--userns", "--memory", "--cpus", "--pids-limit", "--group-add"}) {
    EXPECT_FALSE(has(words, {left_out})) << left_out;
  }
  // Beyond the numbers that there are.
  podman.uids = 100;
  podman.gids = 1'001;
  const Words few = words_of(member, podman);
  EXPECT_TRUE(has(few, {"--uidmap", "0:1:100", "--uidmap", "1000:0:1", "--gidmap", "0:1:1001",
                        "--gidmap", "1001:0:1", "--user"}))
      << fmt::format("{}", fmt::join(few, " "));
}

TEST(PodmanRun, RefusesWhatPodmanWouldTakeForSomethingElse) {
  for (const char* path : {"relative", "/a,ro=false", "/a\"b", "/a\nb", ""}) {
    MemberStart member = contained();
    member.container->mounts = {{path, "/d", false}};
    EXPECT_FALSE(podman_run(kPodman, member, {}, "")) << path;
    member.container->mounts = {{"/d", path, false}};
    EXPECT_FALSE(podman_run(kPodman, member, {}, "")) << path;
  }
  MemberStart member = contained();
  member.container->image.clear();
  EXPECT_FALSE(podman_run(kPodman, member, {}, ""));
}

TEST(ContainerVariables, AreForNobodyElseToRead) {
  const auto variables = container_variables(
      {{"TOKEN", "secret"}, {"TWO", "a\nb"}, {"QUOTED", "'x'"}, {"EMPTY", ""}, {"EQ", "a=b #c"}});
  ASSERT_TRUE(variables);
  EXPECT_EQ(variables->file, "EMPTY=\nEQ=a=b #c\nTOKEN=secret\n");
  EXPECT_EQ(variables->options, (Words{"--env", "QUOTED='x'", "--env", "TWO=a\nb"}));
  for (const char* name : {"", "A=B", "A B", "A\nB", "#A"}) {
    EXPECT_FALSE(container_variables({{name, "x"}})) << name;
  }
}

TEST(PodmanExec, EntersTheContainer) {
  EXPECT_EQ(podman_exec(kPodman, {{"sh"}, {{"TERM", "xterm"}}, "/w", true}),
            (Words{"podman", "--root", "/r", "exec", "--interactive", "--tty", "--workdir", "/w",
                   "--env", "TERM=xterm", "divvy-job-7.1.0-0", "sh"}));
}

TEST(PodmanRun, OfRootPublishesNoPortOfRootsForAUser) {
  MemberStart member = contained();
  member.container->ports = {{443, 443}};
  EXPECT_FALSE(podman_run(kPodman, member, {}, "").has_value());
  EXPECT_TRUE(podman_run(podman_of(PodmanUser::kMember), member, {}, "").has_value())
      << "the kernel refuses it";
  member.uid = 0;
  EXPECT_TRUE(podman_run(kPodman, member, {}, "").has_value());
}

TEST(PodmanRun, OfRootReadsNoImageFromAFileForAUser) {
  const auto accepts = [](const char* image, uid_t uid, PodmanUser user) {
    MemberStart member = contained();
    member.uid = uid;
    member.container->image = image;
    return podman_run(podman_of(user), member, {}, "").has_value();
  };
  for (const char* image : {"ubuntu", "ubuntu:22.04", "localhost/x:1", "quay.io:5000/a/b_c:v1-x",
                            "oci/x", "dir/x:1", "docker://quay.io/a/b", "a@sha256:0123456789abcdef",
                            "r:5000/a:t@sha256:00ff", "3b2f0a9c1d4e"}) {
    EXPECT_TRUE(accepts(image, 1000, PodmanUser::kRoot)) << image;
  }
  for (const char* image : {"docker-archive:/root/x.tar",
                            "oci-archive:x.tar",
                            "dir:/root",
                            "dir:x",
                            "oci:x:1",
                            "containers-storage:x",
                            "docker-daemon:x:1",
                            "docker:x",
                            "sif:x",
                            "new-kind:/root/x",
                            "/root/x.tar",
                            "./x.tar",
                            "../x",
                            "a//b",
                            "a/",
                            "a:",
                            ":a",
                            "a@",
                            "a@b",
                            "a b",
                            "a\nb",
                            "-x",
                            "--privileged",
                            "docker://",
                            "docker://dir:/x"}) {
    EXPECT_FALSE(accepts(image, 1000, PodmanUser::kRoot)) << image;
    EXPECT_TRUE(accepts(image, 0, PodmanUser::kRoot)) << image;
    EXPECT_TRUE(accepts(image, 1000, PodmanUser::kMember)) << image;
  }
}

}  // namespace
}  // namespace divvy::run
