// Contexts that are clusters: how they are kept, and commands that are answered in this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/temporary_folder.h"
#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "cli/kube_answers.h"
#include "sys/frames.h"

namespace divvy::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class KubeContexts : public ::testing::Test {
 protected:
  CliOutcome divvy(const std::vector<std::string>& arguments, bool built_in = true) {
    Terminal terminal;
    terminal.environment = [&](const char* name) -> std::optional<std::string> {
      if (std::string_view(name) == "DIVVY_CONFIG") return (folder_ / "config.yaml").string();
      if (std::string_view(name) == "KUBECONFIG") return "/home/ada/kubeconfig:/other";
      return std::nullopt;
    };
    Services services{.version = "1.2.3", .inventory = {}};
    services.daemon.socket = folder_ / "none.sock";
    services.daemon.may_start = false;
    services.now = [] { return WallTime(std::chrono::milliseconds(kTestNow)); };
    if (built_in) {
      services.cluster = [this](const ServerContext& context) -> Result<net::HttpHandler> {
        if (context.kube_context == "gone") {
          return err(ErrorCode::kNotFound, "the kubeconfig has no context gone");
        }
        asked_.push_back(context);
        return [this](const net::HttpRequest& request, const net::Caller& caller) {
          return answer(request, caller);
        };
      };
    }
    std::ostringstream out;
    std::ostringstream err;
    const int status = run(arguments, services, terminal, out, err);
    return {status, out.str(), err.str()};
  }

  net::HttpResponse answer(const net::HttpRequest& request, const net::Caller& /*caller*/) {
    const std::string what = request.method + " " + request.path;
    if (what == "GET /v1/whoami") {
      return {.body = R"({"name":"team-a","kubernetesUser":"ada","namespace":"team-a"})"};
    }
    if (what == "GET /v1/jobs/17/members")
      return {.body = R"({"items":[{"rank":0,"phase":"living"}]})"};
    if (what == "POST /v1/jobs/17/channels") return open_channel(request);
    if (what == "GET /v1/jobs/17")
      return {.body = R"({"id":17,"name":"train","state":"succeeded"})"};
    if (what == "GET /v1/gpus") {
      return {.body = R"({"items":[{"index":0,"node":"node-1","uuid":"GPU-1","model":"H200",
          "heldShareThousandths":500,"state":"healthy","reason":null,"cordoned":false,
          "draining":false,"cordonReason":null,"tenants":[{"name":"team-a/train"}]}]})"};
    }
    if (what == "GET /v1/stats") {
      return {.body = R"({"gpus":[
          {"node":"node-1","model":"H200 on node-1","memoryBytes":100,"freeShareThousandths":500,
           "unusable":""},
          {"node":"node-1","model":"H200 on node-1","memoryBytes":100,"freeShareThousandths":1000,
           "unusable":"it has failed"}]})"};
    }
    if (what == "GET /v1/jobs/17/logs" && request.query.find("follow=true") != std::string::npos) {
      net::HttpResponse response;
      response.stream = [](net::HttpStream& stream) {
        static_cast<void>(stream.send("2026-11-15T12:00:00.000000001Z one\n"));
        static_cast<void>(stream.send("2026-11-15T12:00:01.000000001Z two\n"));
      };
      return response;
    }
    return {.status = 501, .body = R"({"detail":"that is for a machine"})"};
  }

  // What is in the pod: it writes, and ends with a status.
  net::HttpResponse open_channel(const net::HttpRequest& request) {
    wish_ = request.body;
    if (request.body.find("denied") != std::string::npos) {
      return {.status = 403, .body = R"({"detail":"you may not create pods/exec"})"};
    }
    net::HttpResponse response;
    response.upgrade = [this](UniqueFd& socket) {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      socket = UniqueFd(ends[0]);
      pods_.emplace_back([pod = std::make_shared<UniqueFd>(ends[1])] {
        for (const sys::Frame& frame : std::initializer_list<sys::Frame>{
                 sys::StartedFrame{false}, sys::OutputFrame{""}, sys::EndFrame{3, 0, ""}}) {
          EXPECT_TRUE(sys::send_frames(pod->get(), sys::to_bytes(frame)));
        }
        // Until they have hung up.
        char byte = 0;
        while (::recv(pod->get(), &byte, 1, 0) > 0) {
        }
      });
      return net::HttpResponse{.status = 101, .body = {}};
    };
    return response;
  }
  void TearDown() override {
    for (std::thread& pod : pods_) pod.join();
  }

  std::string config() {
    std::ifstream file(folder_ / "config.yaml");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  TemporaryFolder folder_;
  std::vector<ServerContext> asked_;
  std::string wish_;
  std::vector<std::thread> pods_;
};

TEST_F(KubeContexts, AddSaysWhoOneIsThereAndKeepsTheKubeconfig) {
  const CliOutcome added =
      divvy({"context", "add", "prod", "--kube", "--kube-context", "admin@prod", "-n", "team-a"});
  EXPECT_EQ(added.status, kExitOk) << added.err;
  EXPECT_THAT(added.err, AllOf(HasSubstr("prod is ada, in namespace team-a"),
                               HasSubstr("next: divvy context use prod")));
  EXPECT_THAT(config(), AllOf(HasSubstr(R"(kubeconfig: "/home/ada/kubeconfig")"),
                              HasSubstr(R"(kube_context: "admin@prod")"),
                              HasSubstr(R"(namespace: "team-a")"), Not(HasSubstr("server"))));
  EXPECT_THAT(divvy({"context", "list"}).out, HasSubstr("cluster admin@prod"));
  EXPECT_EQ(divvy({"config", "get", "contexts.prod.namespace"}).out, "team-a\n");
}

TEST_F(KubeContexts, ACommandInAPodHasTheExitStatusThatItHasThere) {
  ASSERT_EQ(divvy({"context", "add", "prod", "--kube"}).status, kExitOk);
  EXPECT_EQ(divvy({"--context", "prod", "exec", "17", "--", "nvidia-smi"}).status, 3);
  EXPECT_THAT(wish_, AllOf(HasSubstr(R"("kind":"exec","command":["nvidia-smi"])"),
                           HasSubstr(R"("rank":0)")));
  const CliOutcome denied = divvy({"--context", "prod", "exec", "17", "--", "denied"});
  EXPECT_EQ(denied.status, kExitDenied);
  EXPECT_THAT(denied.err, HasSubstr("you may not create pods/exec"));
}

TEST_F(KubeContexts, OneThatDoesNotWorkIsNotAdded) {
  const CliOutcome refused = divvy({"context", "add", "prod", "--kube", "--kube-context", "gone"});
  EXPECT_EQ(refused.status, kExitNotFound);
  EXPECT_THAT(refused.err, HasSubstr("no context gone"));
  EXPECT_EQ(config(), "");
  EXPECT_THAT(divvy({"context", "add", "prod", "--kube", "--at", "https://a:1"}).err,
              HasSubstr("leave --at, --ca and --token-file out"));
  EXPECT_THAT(divvy({"context", "add", "prod"}).err, HasSubstr("--kube for a cluster"));
  EXPECT_THAT(divvy({"context", "add", "prod", "--kube"}, false).err,
              HasSubstr("built without Kubernetes"));
}

TEST_F(KubeContexts, CommandsAreAnsweredByTheClusterOfTheContext) {
  ASSERT_EQ(divvy({"context", "add", "prod", "--kube"}).status, kExitOk);
  EXPECT_EQ(divvy({"--context", "prod", "get", "17", "-o", "name"}).out, "17\n");
  EXPECT_EQ(asked_.back().kubeconfig, "/home/ada/kubeconfig");
  const CliOutcome gpus = divvy({"--context", "prod", "gpus"});
  EXPECT_EQ(gpus.status, kExitOk) << gpus.err;
  EXPECT_THAT(gpus.out, AllOf(HasSubstr("NODE"), HasSubstr("node-1"), HasSubstr("0.5"),
                              HasSubstr("team-a/train")));
  const CliOutcome nodes = divvy({"--context", "prod", "nodes"});
  EXPECT_THAT(nodes.out, AllOf(HasSubstr("node-1"), HasSubstr("0.5"), HasSubstr("it has failed")));
  EXPECT_THAT(nodes.out, Not(HasSubstr("on node-1")));
}

TEST_F(KubeContexts, FollowedOutputIsShownPieceByPiece) {
  ASSERT_EQ(divvy({"context", "add", "prod", "--kube"}).status, kExitOk);
  const CliOutcome followed = divvy({"--context", "prod", "logs", "-f", "17"});
  EXPECT_EQ(followed.status, kExitOk) << followed.err;
  EXPECT_EQ(followed.out, "one\ntwo\n");
}

TEST_F(KubeContexts, WhatIsAboutAMachineSaysSo) {
  ASSERT_EQ(divvy({"context", "add", "prod", "--kube"}).status, kExitOk);
  EXPECT_THAT(divvy({"--context", "prod", "doctor"}).err, HasSubstr("the context is a cluster"));
  EXPECT_THAT(divvy({"--context", "prod", "queue", "list"}).err,
              HasSubstr("that is for a machine"));
  EXPECT_THAT(divvy({"--context", "prod", "get", "17"}, false).err,
              HasSubstr("built without Kubernetes"));
}

TEST(KubeAnswers, ASilentAnswerIsGivenUpAndItsMakerHearsOfIt) {
  bool heard = false;
  const net::HttpHandler handler = [&](const net::HttpRequest&, const net::Caller&) {
    net::HttpResponse response;
    response.stream = [&](net::HttpStream& stream) {
      static_cast<void>(stream.send("first"));
      // For ever, if nobody hangs up.
      heard =
          stream.caller().wait_for(-1, std::chrono::milliseconds(-1)) == net::Caller::Wait::kGone;
    };
    return response;
  };
  std::string text;
  const auto reply = follow_here(handler, {.method = "GET", .path = "/", .query = {}, .body = {}},
                                 std::chrono::milliseconds(1), [&](std::string_view piece) {
                                   text += piece;
                                   return true;
                                 });
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code, ErrorCode::kTimeout);
  EXPECT_TRUE(heard);
}

TEST(KubeAnswers, WhoeverHasEnoughEndsTheAnswer) {
  const net::HttpHandler handler = [](const net::HttpRequest& request, const net::Caller&) {
    EXPECT_EQ(request.path, "/v1/watch");
    EXPECT_EQ(request.query, "from=now");
    net::HttpResponse response;
    response.stream = [](net::HttpStream& stream) {
      while (stream.send("more")) {
      }
    };
    return response;
  };
  int pieces = 0;
  const auto reply =
      follow_here(handler, {.method = "GET", .path = "/v1/watch?from=now", .query = {}, .body = {}},
                  std::nullopt, [&](std::string_view) { return ++pieces < 3; });
  EXPECT_TRUE(reply.has_value());
  EXPECT_EQ(pieces, 3);
}

}  // namespace
}  // namespace divvy::cli
