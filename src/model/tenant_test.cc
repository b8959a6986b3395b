#include "model/tenant.h"

#include <gtest/gtest.h>

#include "model/testing.h"

namespace divvy::model {
namespace {

Slice slice(std::uint64_t gpu, std::uint32_t thousandths) {
  return *Slice::create(test_uuid(gpu), gib(1), Share(thousandths), ShareKind::kGuarantee);
}

TEST(Tenant, HoldsOneSlicePerGpuInOrder) {
  const auto tenant = Tenant::create(TenantId(1), "team-a", {slice(2, 1000), slice(1, 500)});
  ASSERT_TRUE(tenant.has_value()) << tenant.error().message;
  EXPECT_EQ(tenant->slices().front().gpu(), test_uuid(1));
  EXPECT_EQ(tenant->total_share(), Share(1500));
  ASSERT_NE(tenant->slice_on(test_uuid(2)), nullptr);
  EXPECT_EQ(tenant->slice_on(test_uuid(2))->share(), Share(1000));
  EXPECT_EQ(tenant->slice_on(test_uuid(3)), nullptr);
}

TEST(Tenant, RefusesTwoSlicesOnOneGpu) {
  const auto tenant = Tenant::create(TenantId(1), "team-a", {slice(1, 300), slice(1, 300)});
  ASSERT_FALSE(tenant.has_value());
  EXPECT_EQ(tenant.error().code, ErrorCode::kAlreadyExists);
}

TEST(Tenant, RefusesNoSliceAndBadNames) {
  EXPECT_FALSE(Tenant::create(TenantId(1), "team-a", {}).has_value());
  EXPECT_FALSE(Tenant::create(TenantId(1), "team a", {slice(1, 300)}).has_value());
}

}  // namespace
}  // namespace divvy::model
