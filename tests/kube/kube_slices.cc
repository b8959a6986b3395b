#include "kube_slices.h"

#include <fmt/format.h>

#include <sstream>

namespace divvy::testing {
namespace {

namespace json = boost::json;

struct Sum {
  std::int64_t share = 0;
  std::int64_t bytes = 0;
};

const json::array& list_at(const json::value& object, std::string_view pointer) {
  static const json::array kNone;
  boost::system::error_code wrong;
  const json::value* found = object.find_pointer(pointer, wrong);
  return found != nullptr && found->is_array() ? found->get_array() : kNone;
}

void add(std::map<std::string, Sum>& sums, const json::value& slice) {
  Sum& sum = sums[text_at(slice, "/gpu")];
  sum.share += number_at(slice, "/shareThousandths");
  sum.bytes += number_at(slice, "/memoryBytes");
}

std::map<std::string, Sum> held_by(const json::array& nodes) {
  std::map<std::string, Sum> held;
  for (const json::value& node : nodes) {
    for (const json::value& claim : list_at(node, "/status/held")) {
      for (const json::value& slice : list_at(claim, "/slices")) add(held, slice);
    }
  }
  return held;
}

void expect_within(std::string_view who, const std::map<std::string, Sum>& sums,
                   const json::array& nodes) {
  std::map<std::string, std::int64_t> memory;
  for (const json::value& node : nodes) {
    for (const json::value& gpu : list_at(node, "/status/state/gpus")) {
      memory[text_at(gpu, "/uuid")] = number_at(gpu, "/memory");
    }
  }
  for (const auto& [gpu, sum] : sums) {
    EXPECT_LE(sum.share, 1000) << who << " that much of " << gpu;
    EXPECT_LE(sum.bytes, memory[gpu]) << who << " that much of " << gpu;
  }
}

}  // namespace

void KubeSlices::SetUp() {
  KubeCluster::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  image_ = must({"get", "daemonset", "divvy-node", "--namespace", "divvy-system", "-o",
                 "jsonpath={.spec.template.spec.containers[0].image}"});
  ASSERT_FALSE(image_.empty());
}

PodOptions KubeSlices::gpuload(const std::string& share, std::vector<std::string> words) const {
  PodOptions options{.image = image_, .command = std::move(words)};
  if (!share.empty()) options.annotations.emplace_back("divvy.dev/gpu", share);
  return options;
}

PodOptions KubeSlices::gpuload_on(const std::string& node, int percent,
                                  std::vector<std::string> words) {
  PodOptions options = gpuload("", std::move(words));
  options.limits = {{"nvidia.com/gpu", "1"}, {"nvidia.com/gpucores", std::to_string(percent)}};
  options.annotations = {
      {"nvidia.com/use-gpuuuid", text_at(get("gpunode", node), "/status/state/gpus/0/uuid")}};
  return options;
}

json::object KubeSlices::report(const std::string& pod) {
  const std::string text = must({"logs", pod});
  boost::system::error_code wrong;
  json::value value = json::parse(text, wrong);
  EXPECT_FALSE(wrong) << text;
  return value.is_object() ? value.as_object() : json::object();
}

std::size_t KubeSlices::held() {
  std::size_t count = 0;
  for (const json::value& node : get_all("gpunodes")) {
    for (const json::value& held : list_at(node, "/status/held")) {
      if (text_at(held, "/namespace") == name_space()) ++count;
    }
  }
  return count;
}

json::object KubeSlices::claim_of(const std::string& pod) {
  const json::object document = get("pod", pod);
  return get("resourceclaim", text_at(document, "/spec/resourceClaims/0/resourceClaimName"));
}

void KubeSlices::expect_nothing_overbooked() {
  // Of the claims first: what is allocated after it was read is not in it, and what was given back
  // meanwhile is on no node any more.
  std::map<std::string, Sum> allocated;
  for (const json::value& claim : get_all("resourceclaims", true)) {
    for (const json::value& config : list_at(claim, "/status/allocation/devices/config")) {
      add(allocated, config.at_pointer("/opaque/parameters"));
    }
  }
  const json::array nodes = get_all("gpunodes");
  expect_within("claims have", allocated, nodes);
  expect_within("nodes hold", held_by(nodes), nodes);
}

void KubeSlices::expect_nodes_hold_no_more_than_they_have() {
  const json::array nodes = get_all("gpunodes");
  expect_within("nodes hold", held_by(nodes), nodes);
}

void KubeSlices::expect_nothing_left() {
  EXPECT_TRUE(eventually([&] { return get_all("resourceclaims").empty(); }));
  EXPECT_TRUE(eventually([&] { return held() == 0; }));
  std::string known;
  for (const json::value& claim : get_all("resourceclaims", true)) {
    known += text_at(claim, "/metadata/uid") + " ";
  }
  for (const char* node : {"node-1", "node-2"}) {
    const Outcome files =
        cluster({"shell", node, "sh", "-c",
                 "ls /run/cdi | sed -n 's/^divvy.dev-claim_\\(.*\\).json/\\1/p'"});
    std::istringstream lines(files.out);
    for (std::string uid; std::getline(lines, uid);) {
      EXPECT_NE(known.find(uid), std::string::npos) << uid << " on " << node;
    }
  }
}

std::string KubeSlices::divvy_pod(const std::string& component, const std::string& node) {
  std::vector<std::string> words = {"get",         "pods",
                                    "--namespace", "divvy-system",
                                    "--selector",  "app.kubernetes.io/component=" + component,
                                    "-o",          "jsonpath={.items[0].metadata.name}"};
  if (!node.empty()) words.push_back("--field-selector=spec.nodeName=" + node);
  return must(words);
}

}  // namespace divvy::testing
