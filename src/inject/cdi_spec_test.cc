#include "inject/cdi_spec.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>

namespace divvy::inject {
namespace {

CdiSpec small() {
  return {.kind = "divvy.dev/gpu",
          .devices = {{"one", {.env = {"A=b"}, .device_nodes = {}, .mounts = {}}}},
          .edits = {}};
}

TEST(CdiSpec, IsWrittenAsRuntimesReadIt) {
  CdiSpec spec = small();
  spec.devices[0].name = "0";
  spec.devices[0].edits.device_nodes = {{"/dev/nvidia0", "/run/nvidia/driver/dev/nvidia0"}};
  spec.edits.mounts = {{"/usr/lib64/libcuda.so.1", "/usr/lib64/libcuda.so", {"ro", "nosuid"}}};
  ASSERT_TRUE(check(spec).has_value());
  EXPECT_EQ(to_json(spec), R"({
  "cdiVersion": "0.5.0",
  "kind": "divvy.dev/gpu",
  "devices": [
    {
      "name": "0",
      "containerEdits": {
        "env": ["A=b"],
        "deviceNodes": [
          {
            "path": "/dev/nvidia0",
            "hostPath": "/run/nvidia/driver/dev/nvidia0"
          }
        ]
      }
    }
  ],
  "containerEdits": {
    "mounts": [
      {
        "hostPath": "/usr/lib64/libcuda.so.1",
        "containerPath": "/usr/lib64/libcuda.so",
        "options": ["ro","nosuid"]
      }
    ]
  }
}
)");
}

TEST(CdiSpec, NeedsNoNewerVersionThanItsFields) {
  CdiSpec spec = small();
  EXPECT_EQ(minimum_version(spec), "0.3.0");
  spec.devices[0].name = "0";
  EXPECT_EQ(minimum_version(spec), "0.5.0");
  spec = small();
  spec.edits.device_nodes = {{"/dev/x", ""}};
  EXPECT_EQ(minimum_version(spec), "0.3.0");
  spec.edits.device_nodes = {{"/dev/x", "/dev/y"}};
  EXPECT_EQ(minimum_version(spec), "0.5.0");
}

TEST(CdiSpec, RefusesWhatRuntimesWouldRefuse) {
  const auto refused = [](const auto& spoil) {
    CdiSpec spec = small();
    spoil(spec);
    return !check(spec).has_value();
  };
  EXPECT_FALSE(refused([](CdiSpec&) {}));
  for (const char* kind : {"", "gpu", "divvy.dev/", "/gpu", "divvy dev/gpu", "1.dev/gpu",
                           "divvy.dev/g.pu", "divvy.dev/0", "divvy.dev-/gpu", "a/b/c"}) {
    EXPECT_TRUE(refused([kind](CdiSpec& spec) { spec.kind = kind; })) << kind;
  }
  for (const char* name : {"", "a b", "-a", "a-", "a/b", "a=b"}) {
    EXPECT_TRUE(refused([name](CdiSpec& spec) { spec.devices[0].name = name; })) << name;
  }
  EXPECT_TRUE(refused([](CdiSpec& spec) { spec.devices.clear(); }));
  EXPECT_TRUE(refused([](CdiSpec& spec) { spec.devices.push_back(spec.devices[0]); }));
  EXPECT_TRUE(refused([](CdiSpec& spec) { spec.devices[0].edits = {}; }));
  EXPECT_TRUE(refused([](CdiSpec& spec) { spec.edits.env = {"NO_VALUE"}; }));
  EXPECT_TRUE(refused([](CdiSpec& spec) { spec.edits.env = {"=x"}; }));
  EXPECT_TRUE(refused([](CdiSpec& spec) { spec.edits.mounts = {{"a", "/a", {}}}; }));
  EXPECT_TRUE(refused([](CdiSpec& spec) { spec.edits.mounts = {{"/a", "", {}}}; }));
  EXPECT_TRUE(refused([](CdiSpec& spec) { spec.edits.device_nodes = {{"dev", ""}}; }));
}

TEST(CdiSpec, TellsTheKindOfAFile) {
  EXPECT_EQ(kind_of_cdi_file(to_json(small())), "divvy.dev/gpu");
  EXPECT_EQ(kind_of_cdi_file(R"({"cdiVersion":"0.3.0","kind":"nvidia.com/gpu"})"),
            "nvidia.com/gpu");
  for (const char* text : {"", "kind: divvy.dev/gpu", "[]", R"({"kind":"divvy.dev/gpu"})",
                           R"({"cdiVersion":"0.3.0","kind":3})"}) {
    EXPECT_EQ(kind_of_cdi_file(text), "") << text;
  }
}

// Whatever the path is, the file is JSON that says the same.
RC_GTEST_PROP(CdiSpecProperty, EveryPathSurvives, ()) {
  const auto name = *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
  CdiSpec spec = small();
  spec.edits.mounts = {{"/" + name, "/x", {}}};
  const boost::json::value document = boost::json::parse(to_json(spec));
  RC_ASSERT(document.at("containerEdits").at("mounts").at(0).at("hostPath").as_string() ==
            "/" + name);
}

}  // namespace
}  // namespace divvy::inject
