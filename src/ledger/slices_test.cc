#include "ledger/slices.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "model/testing.h"

namespace divvy::ledger {
namespace {

using model::TenantId;

std::vector<SharedGpu> gpus(std::uint32_t count, Bytes memory = gib(100)) {
  std::vector<SharedGpu> result;
  for (std::uint32_t i = 0; i < count; ++i) {
    result.push_back({model::GpuIndex(i), model::test_uuid(i), "NVIDIA H200", memory, {}});
  }
  return result;
}

Want want(std::string_view gpu, std::optional<std::string_view> memory = std::nullopt) {
  auto request = model::Request::parse(gpu, memory);
  EXPECT_TRUE(request.has_value()) << request.error().message;
  return {*std::move(request), {}, GpuMode::kTimeslice};
}

Want want_memory(std::string_view memory) {
  auto request = model::Request::parse(std::nullopt, memory);
  EXPECT_TRUE(request.has_value()) << request.error().message;
  return {*std::move(request), {}, GpuMode::kTimeslice};
}

std::vector<model::Slice> slice(std::uint32_t gpu, std::uint32_t share, Bytes memory) {
  return {model::Slice::create(model::test_uuid(gpu), memory, Share(share),
                               model::ShareKind::kGuarantee)
              .value()};
}

// As much of the memory as of the share.
std::vector<model::Slice> slice(std::uint32_t gpu, std::uint32_t share) {
  return slice(gpu, share, portion(gib(100), Share(share)));
}

Status take(Slices& slices, std::uint64_t tenant, std::vector<model::Slice> wanted) {
  return slices.take(TenantId(tenant), std::move(wanted), GpuMode::kTimeslice);
}

TEST(Slices, GivesNoMoreThanIsFree) {
  Slices slices(gpus(2));
  EXPECT_TRUE(take(slices, 1, slice(0, 700)));
  EXPECT_FALSE(take(slices, 2, slice(0, 400))) << "share";
  EXPECT_FALSE(take(slices, 2, slice(0, 100, gib(31)))) << "memory";
  EXPECT_FALSE(take(slices, 1, slice(1, 100))) << "a tenant twice";
  EXPECT_FALSE(take(slices, 2, slice(7, 100))) << "a GPU that is not there";
  EXPECT_TRUE(take(slices, 2, slice(0, 300)));
  EXPECT_EQ(slices.free_share(model::test_uuid(0)), Share(0));
  EXPECT_EQ(slices.holders(model::test_uuid(0)), (std::vector{TenantId(1), TenantId(2)}));
}

TEST(Slices, SaysWhatIsInTheWay) {
  Slices slices(gpus(1));
  ASSERT_TRUE(take(slices, 1, slice(0, 100, gib(90))));
  const NoFit answer = slices.why_not(want("0.5"));
  EXPECT_TRUE(answer.ever);
  EXPECT_EQ(answer.obstacles[0].reason, "has 10.0 GiB of memory free");
  EXPECT_EQ(answer.obstacles[0].holders, std::vector<TenantId>{TenantId(1)});
  EXPECT_EQ(slices.why_not(want_memory("95GiB")).summary,
            "95GiB of GPU memory does not fit on this machine now");
  EXPECT_EQ(slices.why_not(want("1")).summary, "1 GPU does not fit on this machine now");
  EXPECT_EQ(Slices(gpus(1)).why_not(want("2")).summary, "2 GPUs can never fit on this machine");
}

TEST(Slices, SaysWhatCanNeverFit) {
  const Slices slices(gpus(2));
  for (const auto& [gpu, memory, advice] :
       {std::tuple("3", "1GiB", "at most --gpu 2"), std::tuple("0.5", "200GiB", "100.0 GiB"),
        std::tuple("0.5", "1MiB", "256MiB"), std::tuple("17", "1GiB", "at most 16"),
        std::tuple("2.5", "1GiB", "at most --gpu 2"), std::tuple("1", "101GiB", "100.0 GiB")}) {
    const NoFit answer = slices.why_not(want(gpu, memory));
    EXPECT_FALSE(answer.ever) << gpu;
    EXPECT_NE(answer.advice.find(advice), std::string::npos) << answer.advice;
  }
  EXPECT_FALSE(slices.why_not(want_memory("101GiB")).ever);
  EXPECT_TRUE(slices.why_not(want("1.5", "10GiB")).ever);
}

TEST(Slices, SpeaksOfTheGpusThatWereNamed) {
  Slices slices(gpus(2));
  Want wanted = want("0.5");
  wanted.only = {model::test_uuid(1)};
  ASSERT_TRUE(take(slices, 1, slice(1, 700)));
  const NoFit answer = slices.why_not(wanted);
  ASSERT_EQ(answer.obstacles.size(), 1U);
  EXPECT_EQ(answer.obstacles[0].reason, "has 0.3 GPU free");
}

TEST(Slices, FindsAGpuByIndexAndByTheBeginningOfItsUuid) {
  const Slices slices(gpus(2));
  EXPECT_EQ(slices.find_by_text("1").value(), model::test_uuid(1));
  EXPECT_EQ(slices.find_by_text(model::test_uuid(1).str()).value(), model::test_uuid(1));
  EXPECT_FALSE(slices.find_by_text("GPU-0000").has_value());  // Both begin so
  EXPECT_FALSE(slices.find_by_text("2").has_value());
  EXPECT_FALSE(slices.find_by_text("").has_value());
  EXPECT_FALSE(slices.find_by_text("GPU-").has_value());
}

TEST(Slices, SaysWhyAGpuGetsNoWork) {
  auto two = gpus(2);
  two[0].unusable = "is divided by MIG";
  Slices slices(two);
  slices.set_resting(model::test_uuid(1), "is cordoned: new fan", false);
  const NoFit answer = slices.why_not(want("0.5"));
  EXPECT_TRUE(answer.ever);
  EXPECT_EQ(answer.obstacles.at(0).reason, "is divided by MIG");
  EXPECT_EQ(answer.obstacles.at(1).reason, "is cordoned: new fan");
  EXPECT_FALSE(slices.why_not(want("2")).ever);
}

TEST(Slices, DoesNotMixModesOnOneGpu) {
  Slices slices(gpus(1));
  ASSERT_TRUE(take(slices, 1, slice(0, 500)));
  EXPECT_FALSE(slices.take(TenantId(2), slice(0, 200), GpuMode::kMps));
  slices.give_back(TenantId(1));
  EXPECT_TRUE(slices.take(TenantId(2), slice(0, 200), GpuMode::kMps));
}

TEST(Slices, ChangesAllOrNothing) {
  Slices slices(gpus(1));
  ASSERT_TRUE(take(slices, 1, slice(0, 300)));
  ASSERT_TRUE(take(slices, 2, slice(0, 300)));
  EXPECT_TRUE(slices.change(TenantId(1), slice(0, 700, gib(20))));
  EXPECT_EQ(slices.free_share(model::test_uuid(0)), Share(0));
  EXPECT_FALSE(slices.change(TenantId(1), slice(0, 701, gib(20))));
  EXPECT_EQ(slices.free_share(model::test_uuid(0)), Share(0));
  EXPECT_FALSE(slices.change(TenantId(9), slice(0, 1, gib(20))));
}

RC_GTEST_PROP(Slices, IsNeverOversubscribedAndReleaseUndoesAllocate, ()) {
  const auto count = *rc::gen::inRange<std::uint32_t>(1, 5);
  Slices slices(gpus(count));
  std::set<std::uint64_t> tenants;
  const auto steps = *rc::gen::inRange(1, 60);
  for (std::uint64_t step = 1; step <= static_cast<std::uint64_t>(steps); ++step) {
    if (!tenants.empty() && *rc::gen::inRange(0, 3) == 0) {
      const auto gone = *rc::gen::elementOf(tenants);
      slices.give_back(TenantId(gone));
      tenants.erase(gone);
    } else {
      const auto wanted = slice(*rc::gen::inRange<std::uint32_t>(0, count),
                                *rc::gen::inRange<std::uint32_t>(1, Share::kWhole + 1),
                                Bytes(*rc::gen::inRange<std::uint64_t>(1, gib(120).count())));
      const bool fits = wanted[0].share() <= slices.free_share(wanted[0].gpu()) &&
                        wanted[0].memory() <= slices.free_memory(wanted[0].gpu());
      RC_ASSERT(take(slices, step, wanted).has_value() == fits);
      if (fits) tenants.insert(step);
    }
    // free_...() would end the process if more were held than there is.
    for (const SharedGpu& gpu : slices.gpus()) {
      RC_ASSERT(slices.free_share(gpu.uuid) <= Share(Share::kWhole));
      RC_ASSERT(slices.free_memory(gpu.uuid) <= gpu.memory);
    }
  }
  for (const std::uint64_t tenant : tenants) slices.give_back(TenantId(tenant));
  for (const SharedGpu& gpu : slices.gpus()) {
    RC_ASSERT(slices.free_share(gpu.uuid) == Share(Share::kWhole));
    RC_ASSERT(slices.free_memory(gpu.uuid) == gpu.memory);
    RC_ASSERT(slices.holders(gpu.uuid).empty());
  }
}

}  // namespace
}  // namespace divvy::ledger
