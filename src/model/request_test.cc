#include "model/request.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace divvy::model {
namespace {

TEST(Request, APartOfOneGpu) {
  const auto request = Request::parse("0.3", "10GiB");
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->share(), Share(300));
  EXPECT_EQ(request->whole_gpus(), 0U);
  EXPECT_EQ(request->fraction(), Share(300));
  EXPECT_EQ(request->gpus_per_member(), 1U);
  EXPECT_EQ(request->memory(), gib(10));
  EXPECT_EQ(request->kind(), ShareKind::kGuarantee);
  EXPECT_EQ(request->gang_size(), 1U);
}

TEST(Request, TwoWholeGpusAndAHalf) {
  const auto request = Request::parse("2.5");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->whole_gpus(), 2U);
  EXPECT_EQ(request->fraction(), Share(500));
  EXPECT_EQ(request->gpus_per_member(), 3U);
  EXPECT_EQ(request->memory(), std::nullopt);
}

TEST(Request, WholeGpusOnly) {
  const auto request = Request::parse("4");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->gpus_per_member(), 4U);
  EXPECT_EQ(request->fraction(), Share(0));
}

TEST(Request, SaysWhichOptionIsWrong) {
  EXPECT_TRUE(Request::parse("x").error().message.starts_with("--gpu: cannot read \"x\""));
  EXPECT_TRUE(Request::parse("1", "10Q").error().message.starts_with("--gpu-mem: cannot read"));
}

TEST(Request, RefusesWhatCanNeverBeGranted) {
  EXPECT_FALSE(Request::parse("0").has_value());
  EXPECT_FALSE(Request::parse("1", "0GiB").has_value());
  Request::Parts parts;
  parts.gang_size = 0;
  EXPECT_FALSE(Request::parse("1", std::nullopt, parts).has_value());
  parts.gang_size = Request::kMaxGangSize + 1;
  EXPECT_FALSE(Request::parse("1", std::nullopt, parts).has_value());
  parts.gang_size = Request::kMaxGangSize;
  EXPECT_TRUE(Request::parse("1", std::nullopt, parts).has_value());
}

TEST(Request, ModelsAreAllowedAndDeniedByPiecesOfTheirNames) {
  Request::Parts parts;
  parts.allowed_models = {"h200", "A100"};
  parts.denied_models = {"PCIe"};
  const auto request = Request::parse("1", std::nullopt, parts);
  ASSERT_TRUE(request.has_value());
  EXPECT_TRUE(request->accepts_model("NVIDIA H200"));
  EXPECT_TRUE(request->accepts_model("NVIDIA A100-SXM4-80GB"));
  EXPECT_FALSE(request->accepts_model("NVIDIA A100-PCIe-40GB"));
  EXPECT_FALSE(request->accepts_model("NVIDIA L4"));
  EXPECT_TRUE(Request::parse("1")->accepts_model("anything"));
}

TEST(Request, MemoryAloneIsAPartAndNothingAtAllIsNoGpu) {
  const auto by_memory = Request::parse(std::nullopt, "10GiB");
  ASSERT_TRUE(by_memory.has_value());
  EXPECT_TRUE(by_memory->by_memory());
  EXPECT_EQ(by_memory->gpus_per_member(), 1U);
  EXPECT_FALSE(Request::parse(std::nullopt).has_value());
  EXPECT_FALSE(Request::parse("0").has_value());
  const auto none = Request::create({});
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->no_gpu());
  EXPECT_EQ(none->gpus_per_member(), 0U);
}

TEST(Request, RefusesModelListsThatSayNothing) {
  Request::Parts both;
  both.allowed_models = {"H200"};
  both.denied_models = {"h200"};
  EXPECT_FALSE(Request::parse("1", std::nullopt, both).has_value());
  Request::Parts empty;
  empty.denied_models = {" "};
  EXPECT_FALSE(Request::parse("1", std::nullopt, empty).has_value());
}

TEST(Request, TopologyPreferencesAreReadByName) {
  for (const auto preference :
       {TopologyPreference::kAny, TopologyPreference::kSameNuma, TopologyPreference::kNvlink}) {
    EXPECT_EQ(parse_topology_preference(to_string(preference)), preference);
  }
  EXPECT_FALSE(parse_topology_preference("moon").has_value());
}

RC_GTEST_PROP(RequestProperty, WholeGpusAndFractionMakeTheShare, ()) {
  const Share share(*rc::gen::inRange<std::uint32_t>(1, Share::kMaxThousandths + 1));
  const auto request = Request::parse(to_string(share));
  RC_ASSERT(request.has_value());
  RC_ASSERT(Share::whole_gpus(request->whole_gpus()) + request->fraction() == share);
  RC_ASSERT(Share::whole_gpus(request->gpus_per_member()) >= share);
}

}  // namespace
}  // namespace divvy::model
