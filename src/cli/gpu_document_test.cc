#include "cli/gpu_document.h"

#include <gtest/gtest.h>

#include "cli/output.h"
#include "cli/testing.h"

namespace divvy::cli {
namespace {

TEST(GpuDocument, HasEveryFieldOfTheSchema) {
  const std::string text = to_pretty_json(gpu_list_document(test_node(test_parts(2))));
  EXPECT_EQ(text.substr(0, text.find("    {\n      \"index\": 1")), R"({
  "apiVersion": "divvy/v1",
  "kind": "GpuList",
  "node": {
    "hostname": "box",
    "simulated": false,
    "driverVersion": "580.159.04",
    "cudaVersion": "13.0"
  },
  "items": [
    {
      "index": 0,
      "uuid": "GPU-00000000-0000-4000-8000-000000000000",
      "model": "NVIDIA H200",
      "health": {
        "state": "healthy",
        "reason": null
      },
      "memory": {
        "totalBytes": 150754820096,
        "usedBytes": 13199474688,
        "reservedBytes": 629145600,
        "freeBytes": 136926199808
      },
      "utilizationPercent": 37,
      "temperatureCelsius": 41,
      "powerMilliwatts": 212300,
      "powerLimitMilliwatts": 700000,
      "driverVersion": "580.159.04",
      "computeCapability": "9.0",
      "migMode": "disabled",
      "pciAddress": "00000000:18:00.0",
      "minorNumber": 0,
      "numaNode": 0,
      "cpuAffinity": "0-31,64-95",
      "nvlinkPeers": [
        {
          "index": 1,
          "links": 18
        }
      ],
      "problems": []
    },
)");
}

TEST(GpuDocument, WritesNullAndTheReasonForWhatIsNotKnown) {
  auto parts = test_parts(1);
  model::Gpu lost;
  lost.health = {model::HealthState::kQuarantined, "GPU is lost"};
  lost.problems = {{"handle", "GPU is lost"}};
  parts.gpus = {lost};
  parts.driver_version.reset();
  parts.cuda_version.reset();
  parts.topology = model::Topology(1);
  EXPECT_EQ(
      gpu_list_document(test_node(parts)),
      R"({"apiVersion":"divvy/v1","kind":"GpuList","node":{"hostname":"box","simulated":false,)"
      R"("driverVersion":null,"cudaVersion":null},"items":[{"index":0,"uuid":null,"model":null,)"
      R"("health":{"state":"quarantined","reason":"GPU is lost"},"memory":{"totalBytes":null,)"
      R"("usedBytes":null,"reservedBytes":null,"freeBytes":null},"utilizationPercent":null,)"
      R"("temperatureCelsius":null,"powerMilliwatts":null,"powerLimitMilliwatts":null,)"
      R"("driverVersion":null,"computeCapability":null,"migMode":null,"pciAddress":null,)"
      R"("minorNumber":null,"numaNode":null,"cpuAffinity":null,"nvlinkPeers":[],)"
      R"("problems":[{"field":"handle","error":"GPU is lost"}]}]})");
}

TEST(GpuDocument, WritesTheTopologyAsAMatrix) {
  auto parts = test_parts(3);
  ASSERT_TRUE(parts.topology.set_link(0, 2, {model::LinkKind::kUnknown, 0}));
  const std::string text = to_pretty_json(gpu_topology_document(test_node(parts)));
  EXPECT_NE(text.find("\"kind\": \"GpuTopology\""), std::string::npos);
  EXPECT_NE(text.find("  \"matrix\": [\n"
                      "    [\"X\", \"NV18\", null],\n"
                      "    [\"NV18\", \"X\", \"NV18\"],\n"
                      "    [null, \"NV18\", \"X\"]\n"
                      "  ]\n"),
            std::string::npos)
      << text;
}

TEST(GpuDocument, StaysJsonWhateverTheDriverCallsItsGpus) {
  auto parts = test_parts(1);
  parts.gpus[0].name = "H\xff\"200\n";
  EXPECT_NE(to_pretty_json(gpu_list_document(test_node(parts))).find("\"H\uFFFD\\\"200\\n\""),
            std::string::npos);
}

TEST(GpuDocument, ListsNoGpuAsAnEmptyList) {
  EXPECT_NE(gpu_list_document(test_node(test_parts(0))).find("\"items\":[]"), std::string::npos);
}

}  // namespace
}  // namespace divvy::cli
