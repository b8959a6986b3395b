// What the tests of the API over a cluster have in common: what the controller's own simulated
// cluster comes to, on an API server in memory. Only for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <boost/json.hpp>
#include <functional>

#include "base/unique_fd.h"
#include "kube/cluster_queue_fixture.h"
#include "kube/fake_api.h"
#include "kube_api/cluster_api.h"

namespace divvy::kube_api::testing {

inline constexpr std::array kCollections{"/api/v1/pods", "/apis/resource.k8s.io/v1/resourceclaims",
                                         "/apis/divvy.dev/v1/gpunodes",
                                         "/apis/divvy.dev/v1/queues"};

class ClusterApiTest : public kube::testing::ClusterQueueTest {
 protected:
  ClusterApiTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    mine_ = UniqueFd(ends[0]);
    theirs_ = UniqueFd(ends[1]);
  }

  // What the cluster of the controller's tests has come to.
  void show() {
    for (const char* const collection : kCollections) {
      for (const boost::json::object& object : cluster_.api().list(collection)) {
        api_.put(collection, object);
      }
    }
  }
  net::HttpResponse ask(const std::string& method, const std::string& target,
                        const std::string& body = {}, const net::HttpHeaders& headers = {}) {
    net::HttpRequest request{
        .method = method, .path = target, .query = {}, .body = body, .headers = headers};
    if (const std::size_t at = target.find('?'); at != std::string::npos) {
      request.path = target.substr(0, at);
      request.query = target.substr(at + 1);
    }
    return answers_.handle(request, caller_);
  }
  boost::json::object get(const std::string& target, int status = 200) {
    const net::HttpResponse response = ask("GET", target);
    EXPECT_EQ(response.status, status) << target << ": " << response.body;
    return boost::json::parse(response.body).as_object();
  }
  std::vector<std::string> listed(const std::string& query = {}) {
    std::vector<std::string> lines;
    const boost::json::object page = get("/v1/jobs" + query);
    for (const boost::json::value& item : page.at("items").as_array()) {
      lines.push_back(fmt::format("{} {} {}", std::string_view(item.at("owner").as_string()),
                                  std::string_view(item.at("name").as_string()),
                                  std::string_view(item.at("state").as_string())));
    }
    return lines;
  }
  // Its number, by its name.
  std::string id(const std::string& name) {
    const boost::json::object found = get("/v1/jobs?name=" + name);
    EXPECT_THAT(found.at("items").as_array(), ::testing::SizeIs(1)) << name;
    return boost::json::serialize(found.at("items").at(0).at("id"));
  }
  std::string detail(const net::HttpResponse& response) {
    return std::string(boost::json::parse(response.body).at("detail").as_string());
  }

  // Places what waits, and lets it run as far as the simulated cluster goes.
  void settle() {
    for (int round = 0; round < 4; ++round) {
      controller_.work();
      cluster_.settle();
    }
    controller_.work();
    show();
  }
  // As the kubelet of its node tells of a pod.
  void tell(const std::string& name, const std::string& phase, int exit_code = 0) {
    boost::json::object pod = *cluster_.pod(name);
    boost::json::object state{
        {"running", boost::json::object{{"startedAt", "2026-01-01T00:00:05Z"}}}};
    if (phase != "Running") {
      state = {{"terminated", boost::json::object{{"startedAt", "2026-01-01T00:00:05Z"},
                                                  {"finishedAt", "2026-01-01T00:01:05Z"},
                                                  {"exitCode", exit_code}}}};
    }
    boost::json::object& status = pod["status"].as_object();
    status["phase"] = phase;
    status["containerStatuses"] =
        boost::json::array{boost::json::object{{"name", "main"}, {"state", std::move(state)}}};
    api_.put("/api/v1/pods", std::move(pod));
  }
  void put_pod(const std::string& name, const std::string& phase, int exit_code = 0) {
    cluster_.create_pod({.name = name, .gpu = "0.2"});
    settle();
    tell(name, phase, exit_code);
  }

  UniqueFd mine_;
  UniqueFd theirs_;
  net::Caller caller_{theirs_.get(), 0, 0, 0};
  kube::FakeApi api_;
  ClusterApi answers_{api_,
                      cluster_.clock(),
                      {.space = "team-a",
                       .version = "1",
                       .suffix = [] { return "abcde"; },
                       .look_again = std::chrono::milliseconds(1)}};
};

// Takes what a stream sends, until it has enough.
class Taker final : public net::HttpStream {
 public:
  Taker(const net::Caller& caller, std::function<bool(const std::string&)> enough)
      : caller_(caller), enough_(std::move(enough)) {}
  bool send(std::string_view piece) override {
    text += piece;
    return !enough_(text);
  }
  const net::Caller& caller() const override { return caller_; }

  std::string text;

 private:
  const net::Caller& caller_;
  std::function<bool(const std::string&)> enough_;
};

}  // namespace divvy::kube_api::testing
