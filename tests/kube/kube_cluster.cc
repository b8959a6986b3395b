#include "kube_cluster.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr const char* kPatience = "--timeout=120s";

bool is_ci() {
  const char* value = ::getenv("CI");
  return value != nullptr && std::string(value) == "true";
}

json::object map_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  json::object result;
  for (const auto& [key, value] : pairs) result[key] = value;
  return result;
}

}  // namespace

json::object pod_document(const std::string& name, const PodOptions& options) {
  json::array command;
  for (const std::string& word : options.command) command.emplace_back(word);
  json::object container = options.container;
  container["name"] = "main";
  container["image"] = options.image;
  container["imagePullPolicy"] = "Never";
  container["command"] = std::move(command);
  if (!options.limits.empty()) {
    container["resources"] = json::object{{"limits", map_of(options.limits)}};
  }
  json::object spec = options.spec;
  spec["restartPolicy"] = options.restart_policy;
  // A shell that is a container's first process would not notice SIGTERM.
  spec["terminationGracePeriodSeconds"] = 0;
  spec["containers"] = json::array{std::move(container)};
  if (!options.node.empty()) {
    spec["nodeSelector"] = json::object{{"kubernetes.io/hostname", options.node}};
  }
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", json::object{{"name", name},
                                    {"annotations", map_of(options.annotations)},
                                    {"labels", map_of(options.labels)}}},
          {"spec", std::move(spec)}};
}

std::string text_at(const json::value& object, std::string_view pointer) {
  boost::system::error_code wrong;
  const json::value* found = object.find_pointer(pointer, wrong);
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : std::string();
}

std::int64_t number_at(const json::value& object, std::string_view pointer) {
  boost::system::error_code wrong;
  const json::value* found = object.find_pointer(pointer, wrong);
  return found != nullptr && found->is_number() ? found->to_number<std::int64_t>() : -1;
}

void KubeCluster::SetUp() {
  // One that `make kube-up` has made is as good.
  const char* const named = ::getenv("DIVVY_KUBE_FOLDER");
  folder_ = named != nullptr ? named : KUBE_FOLDER;
  if (!fs::exists(folder_ / "cluster.json")) {
    ASSERT_FALSE(is_ci()) << "there is no cluster in " << folder_ << ", and CI has to have one";
    GTEST_SKIP() << "there is no cluster; ctest makes one where it is root and finds Go";
  }
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  // A name is a label of DNS: 63 lower-case letters, digits and dashes at most, with no dash at
  // either end. The end of the test's name tells more than its beginning.
  std::string name = fmt::format("{}-{}", test->test_suite_name(), test->name());
  for (char& letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    letter = std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : '-';
  }
  if (name.size() > 60) name.erase(0, name.size() - 60);
  name.erase(0, name.find_first_not_of('-'));
  namespace_ = name;
  // Left by a run that was killed.
  kubectl({"delete", "namespace", namespace_, "--ignore-not-found", kPatience});
  must({"create", "namespace", namespace_});
  wait_for("serviceaccount/default", "create");
}

void KubeCluster::TearDown() {
  if (namespace_.empty()) return;
  if (HasFailure()) {
    std::cerr << kubectl({"get", "pods,resourceclaims,events", "-o", "wide"}).out;
    std::cerr << kubectl({"describe", "pods"}).out;
  }
  // The namespace's own end takes some seconds more, which nobody needs to wait for.
  kubectl({"delete", "pods", "--all", "--force", kPatience});
  kubectl({"delete", "namespace", namespace_, "--wait=false"});
}

Outcome KubeCluster::run(std::vector<std::string> command) {
  const std::string path = ::getenv("PATH") != nullptr ? ::getenv("PATH") : "/usr/bin:/bin";
  const fs::path output =
      fs::temp_directory_path() / fmt::format("kube-{}-{}", ::getpid(), serial_++);
  Program program(command,
                  {"PATH=" + path, "HOME=/root", "LC_ALL=C.UTF-8",
                   "KUBECONFIG=" + (folder_ / "pki/admin.kubeconfig").string()},
                  output);
  Outcome outcome = program.finish();
  fs::remove(output.string() + ".out");
  fs::remove(output.string() + ".err");
  return outcome;
}

Outcome KubeCluster::kubectl(const std::vector<std::string>& words) {
  std::vector<std::string> command = {(folder_ / "bin/kubectl").string(), "--namespace",
                                      namespace_};
  command.insert(command.end(), words.begin(), words.end());
  return run(std::move(command));
}

std::string KubeCluster::must(const std::vector<std::string>& words) {
  const Outcome outcome = kubectl(words);
  EXPECT_EQ(outcome.status, 0) << fmt::format("kubectl {}: {}", fmt::join(words, " "), outcome.err);
  return outcome.out;
}

json::object KubeCluster::get(const std::string& kind, const std::string& name) {
  const std::string text = must({"get", kind, name, "-o", "json"});
  boost::system::error_code wrong;
  json::value value = json::parse(text, wrong);
  EXPECT_FALSE(wrong) << text;
  return value.is_object() ? value.as_object() : json::object();
}

Outcome KubeCluster::cluster(const std::vector<std::string>& words) {
  std::vector<std::string> command = {KUBE_CLUSTER_PROGRAM, "--folder", folder_.string()};
  command.insert(command.end(), words.begin(), words.end());
  return run(std::move(command));
}

json::array KubeCluster::get_all(const std::string& kind, bool all_namespaces) {
  std::vector<std::string> words = {"get", kind, "-o", "json"};
  if (all_namespaces) words.emplace_back("--all-namespaces");
  boost::system::error_code wrong;
  const json::value list = json::parse(must(words), wrong);
  EXPECT_FALSE(wrong);
  const json::value* const items = list.find_pointer("/items", wrong);
  return items != nullptr && items->is_array() ? items->get_array() : json::array();
}

Outcome KubeCluster::apply_all(json::array objects) {
  return apply(json::object{{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(objects)}});
}

Outcome KubeCluster::apply(const json::value& object) {
  const fs::path file =
      fs::temp_directory_path() / fmt::format("kube-object-{}-{}", ::getpid(), serial_++);
  std::ofstream(file) << json::serialize(object);
  Outcome outcome = kubectl({"apply", "-f", file.string()});
  fs::remove(file);
  return outcome;
}

Outcome KubeCluster::create_pod(const std::string& name, const PodOptions& options) {
  return apply(pod_document(name, options));
}

void KubeCluster::wait_for(const std::string& object, const std::string& what) {
  must({"wait", object, "--for=" + what, kPatience});
}

void KubeCluster::delete_pod(const std::string& name) { must({"delete", "pod", name, kPatience}); }

}  // namespace divvy::testing
