#include "model/slice.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "model/testing.h"

namespace divvy::model {
namespace {

TEST(Slice, HoldsAPartOfOneGpu) {
  const auto slice = Slice::create(test_uuid(1), gib(10), Share(300), ShareKind::kCap);
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->gpu(), test_uuid(1));
  EXPECT_EQ(slice->memory(), gib(10));
  EXPECT_EQ(slice->share(), Share(300));
  EXPECT_EQ(to_string(slice->kind()), "cap");
  EXPECT_FALSE(slice->whole_gpu());
}

TEST(Slice, RefusesNothingAndMoreThanOneGpu) {
  const auto create = [](Bytes memory, Share share) {
    return Slice::create(test_uuid(1), memory, share, ShareKind::kGuarantee).has_value();
  };
  EXPECT_FALSE(create(gib(1), Share(0)));
  EXPECT_FALSE(create(gib(1), Share(1001)));
  EXPECT_FALSE(create(Bytes(0), Share(500)));
  EXPECT_TRUE(create(Bytes(1), Share(1)));
  EXPECT_TRUE(create(gib(1), Share(1000)));
}

TEST(Slice, GetsTheSamePartOfTheMemoryWhenNoneIsNamed) {
  const auto slice =
      Slice::proportional(test_uuid(1), Bytes(1000), Share(300), ShareKind::kGuarantee);
  ASSERT_TRUE(slice.has_value());
  EXPECT_EQ(slice->memory(), Bytes(300));
  EXPECT_FALSE(Slice::proportional(test_uuid(1), Bytes(1000), Share(1001), ShareKind::kGuarantee));
}

RC_GTEST_PROP(SliceProperty, ExistsOnlyWithinOneGpu, ()) {
  const Share share(*rc::gen::inRange<std::uint32_t>(0, 2 * Share::kWhole));
  const Bytes memory(*rc::gen::inRange<std::uint64_t>(0, 4));
  const auto slice = Slice::create(test_uuid(1), memory, share, ShareKind::kGuarantee);
  const bool fits = share > Share(0) && share <= Share(Share::kWhole) && memory > Bytes(0);
  RC_ASSERT(slice.has_value() == fits);
  if (slice) RC_ASSERT(slice->whole_gpu() == (share == Share(Share::kWhole)));
}

RC_GTEST_PROP(SliceProperty, ProportionalSlicesOfOneGpuFitIntoItsMemory, ()) {
  const Bytes memory(*rc::gen::inRange<std::uint64_t>(1, std::uint64_t{1} << 40));
  Share left(Share::kWhole);
  Bytes held;
  while (left > Share(0)) {
    const Share part(*rc::gen::inRange<std::uint32_t>(1, left.thousandths() + 1));
    left -= part;
    const auto slice = Slice::proportional(test_uuid(1), memory, part, ShareKind::kGuarantee);
    // A tiny part of a tiny memory is no byte at all and is refused, which holds nothing.
    if (slice) held += slice->memory();
  }
  RC_ASSERT(held <= memory);
}

}  // namespace
}  // namespace divvy::model
