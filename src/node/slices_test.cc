#include "node/slices.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "model/testing.h"

namespace divvy::node {
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

// Books what fits; fails the test when nothing does.
std::vector<model::Slice> take(Slices& slices, std::uint64_t tenant, const Want& wanted) {
  auto found = slices.fit(wanted);
  EXPECT_TRUE(found.has_value()) << found.error().summary;
  if (!found) return {};
  EXPECT_TRUE(slices.take(TenantId(tenant), *found, wanted.mode));
  return *found;
}

TEST(Slices, PutsAPartWhereItLeavesTheLeastOver) {
  Slices slices(gpus(3));
  EXPECT_EQ(take(slices, 1, want("0.5"))[0].gpu(), model::test_uuid(0));
  EXPECT_EQ(take(slices, 2, want("0.8"))[0].gpu(), model::test_uuid(1));
  EXPECT_EQ(take(slices, 3, want("0.2"))[0].gpu(), model::test_uuid(1));
  EXPECT_EQ(take(slices, 4, want("0.5"))[0].gpu(), model::test_uuid(0));
  EXPECT_EQ(take(slices, 5, want("1"))[0].gpu(), model::test_uuid(2));
}

TEST(Slices, GivesTwoWholeGpusAndAHalf) {
  Slices slices(gpus(4));
  take(slices, 1, want("0.5"));
  const auto found = take(slices, 2, want("2.5"));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_TRUE(found[0].whole_gpu());
  EXPECT_EQ(found[0].memory(), gib(100));
  EXPECT_TRUE(found[1].whole_gpu());
  EXPECT_EQ(found[2].gpu(), model::test_uuid(0));
  EXPECT_EQ(found[2].memory(), gib(50));
}

TEST(Slices, TakesALinkedPairAndKeepsItWhole) {
  auto four = gpus(4);  // 1 and 3 are linked
  for (std::uint32_t i = 0; i < 4; ++i) four[i].groups = {i == 3 ? 1 : i, i, 0};
  Slices slices(four);
  const auto pair = slices.fit(want("2"));
  ASSERT_TRUE(pair.has_value());
  EXPECT_EQ((*pair)[0].gpu(), model::test_uuid(1));
  EXPECT_EQ((*pair)[1].gpu(), model::test_uuid(3));
  EXPECT_EQ(take(slices, 1, want("0.5"))[0].gpu(), model::test_uuid(0));
  EXPECT_EQ(take(slices, 2, want("1"))[0].gpu(), model::test_uuid(2));
  EXPECT_EQ(take(slices, 3, want("2"))[1].gpu(), model::test_uuid(3));
}

TEST(Slices, MemoryNamedWithWholeGpusIsTheLimitOnEach) {
  Slices slices(gpus(3));
  const auto found = take(slices, 1, want("2.5", "10GiB"));
  ASSERT_EQ(found.size(), 3U);
  for (const model::Slice& slice : found) EXPECT_EQ(slice.memory(), gib(10));
  EXPECT_TRUE(found[0].whole_gpu());
  // The rest of a whole GPU's memory goes to nobody: no share goes with it.
  EXPECT_EQ(take(slices, 2, want("0.5", "80GiB"))[0].gpu(), found[2].gpu());
  EXPECT_FALSE(slices.fit(want("0.001", "1GiB")).has_value());
  EXPECT_FALSE(Slices(gpus(1)).fit(want("1", "101GiB")).has_value());
  EXPECT_FALSE(Slices(gpus(1)).fit(want("1", "1MiB")).has_value());
}

TEST(Slices, MemoryAloneTakesThatPartOfTheGpu) {
  auto two = gpus(2);
  two[0].memory = gib(40);
  Slices slices(two);
  take(slices, 1, want("1"));
  const auto found = take(slices, 2, want_memory("10GiB"));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].share(), Share(100));
  EXPECT_EQ(found[0].memory(), gib(10));
  const auto refused = slices.fit(want_memory("95GiB"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().ever);
  EXPECT_EQ(refused.error().summary, "95GiB of GPU memory does not fit on this machine now");
  EXPECT_FALSE(slices.fit(want_memory("101GiB")).error().ever);
}

TEST(Slices, LooksAtMemoryAsWellAsAtTheShare) {
  Slices slices(gpus(1));
  take(slices, 1, want("0.1", "90GiB"));
  const auto refused = slices.fit(want("0.5"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().ever);
  EXPECT_EQ(refused.error().obstacles[0].reason, "has 10.0 GiB of memory free");
  EXPECT_EQ(refused.error().obstacles[0].holders, std::vector<TenantId>{TenantId(1)});
  EXPECT_TRUE(slices.fit(want("0.5", "10GiB")).has_value());
}

TEST(Slices, SaysWhatCanNeverFit) {
  const Slices slices(gpus(2));
  for (const auto& [gpu, memory, advice] :
       {std::tuple("3", "1GiB", "at most --gpu 2"), std::tuple("0.5", "200GiB", "100.0 GiB"),
        std::tuple("0.5", "1MiB", "256MiB"), std::tuple("17", "1GiB", "at most 16")}) {
    const auto refused = slices.fit(want(gpu, memory));
    ASSERT_FALSE(refused.has_value()) << gpu;
    EXPECT_FALSE(refused.error().ever);
    EXPECT_NE(refused.error().advice.find(advice), std::string::npos) << refused.error().advice;
  }
}

TEST(Slices, KeepsToTheGpusThatWereNamed) {
  Slices slices(gpus(2));
  Want wanted = want("0.5");
  wanted.only = {model::test_uuid(1)};
  EXPECT_EQ(take(slices, 1, wanted)[0].gpu(), model::test_uuid(1));
  take(slices, 2, wanted);
  EXPECT_FALSE(slices.fit(wanted).has_value());
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

TEST(Slices, LeavesGpusInTroubleAlone) {
  auto two = gpus(2);
  two[0].unusable = "XID 79: fallen off the bus";
  const Slices slices(two);
  EXPECT_EQ(slices.fit(want("0.5"))->front().gpu(), model::test_uuid(1));
  EXPECT_FALSE(slices.fit(want("2")).has_value());
}

TEST(Slices, AGpuThatRestsGetsNoNewWorkForNow) {
  Slices slices(gpus(2));
  slices.set_resting(model::test_uuid(0), "is cordoned: new fan", false);
  EXPECT_EQ(slices.fit(want("0.5"))->front().gpu(), model::test_uuid(1));
  Want there = want("0.5");
  there.only = {model::test_uuid(0)};
  const auto refused = slices.fit(there);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().ever);
  EXPECT_TRUE(refused.error().rests);
  EXPECT_EQ(refused.error().obstacles.at(0).reason, "is cordoned: new fan");
  // Who waits for somebody to leave the other one does not wait for this one.
  take(slices, 1, want("0.8"));
  const auto full = slices.fit(want("0.5"));
  ASSERT_FALSE(full.has_value());
  EXPECT_FALSE(full.error().rests);
  EXPECT_TRUE(slices.fit(want("2")).error().rests);
  slices.set_resting(model::test_uuid(0), "", false);
  EXPECT_TRUE(slices.fit(there).has_value());
}

TEST(Slices, DoesNotMixModesOnOneGpu) {
  Slices slices(gpus(1));
  take(slices, 1, want("0.5"));
  Want other = want("0.2");
  other.mode = GpuMode::kMps;
  EXPECT_FALSE(slices.fit(other).has_value());
  slices.give_back(TenantId(1));
  EXPECT_TRUE(slices.fit(other).has_value());
}

TEST(Slices, ChangesAllOrNothing) {
  Slices slices(gpus(1));
  const auto first = take(slices, 1, want("0.3"));
  take(slices, 2, want("0.3"));
  const auto with_share = [&](std::uint32_t share) {
    return std::vector{
        model::Slice::create(first[0].gpu(), gib(20), Share(share), first[0].kind()).value()};
  };
  EXPECT_TRUE(slices.change(TenantId(1), with_share(700)));
  EXPECT_EQ(slices.free_share(first[0].gpu()), Share(0));
  EXPECT_FALSE(slices.change(TenantId(1), with_share(701)));
  EXPECT_EQ(slices.free_share(first[0].gpu()), Share(0));
  EXPECT_FALSE(slices.change(TenantId(9), with_share(1)));
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
      model::Request::Parts parts;
      parts.share = Share(*rc::gen::inRange<std::uint32_t>(1, 3000));
      if (*rc::gen::arbitrary<bool>()) {
        parts.memory = Bytes(*rc::gen::inRange<std::uint64_t>(1, gib(120).count()));
      }
      const Want wanted{model::Request::create(parts).value(), {}, GpuMode::kTimeslice};
      const auto found = slices.fit(wanted);
      if (found) {
        RC_ASSERT(slices.take(TenantId(step), *found, wanted.mode).has_value());
        tenants.insert(step);
      }
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
}  // namespace divvy::node
