#include "simgpu/ptx.h"

#include <gtest/gtest.h>

#include <cstring>

namespace divvy::simgpu {
namespace {

constexpr const char* kText = R"(
.version 7.0
.target sm_70
.address_size 64
//@simgpu spin ns=param0*1000/2
//@simgpu fill ns=500 bytes=param1*4 fill32=param0,param1,param2
.visible .global .align 4 .u32 counter;
.const .align 8 .b8 table[256];
.visible .entry spin(.param .u64 spin_param_0, .param .u32 n)
.maxntid 1024, 1, 1
{
  .shared .align 4 .b8 tile[4096];
  st.volatile.shared.u32 [tile], 1;
  { ret; }
}
/* .entry commented(.param .u64 x) { } */
.visible .entry fill(.param .u64 p, .param .u64 n, .param .u32 v) { ret; }
.visible .entry bare() { ret; }
)";

TEST(Ptx, FindsKernelsWithTheirParameters) {
  const auto module = parse_ptx(kText);
  ASSERT_TRUE(module);
  ASSERT_EQ(module->kernels.size(), 3u);
  const PtxKernel& spin = module->kernels[0];
  EXPECT_EQ(spin.name, "spin");
  ASSERT_EQ(spin.params.size(), 2u);
  EXPECT_EQ(spin.params[1].offset, 8u);
  EXPECT_EQ(spin.params[1].size, 4u);
  EXPECT_EQ(spin.param_bytes, 12u);
  EXPECT_EQ(spin.static_shared, 4096u);
  EXPECT_TRUE(module->kernels[2].params.empty());
}

TEST(Ptx, FindsVariablesWithTheirSizes) {
  const auto module = parse_ptx(kText);
  ASSERT_TRUE(module);
  EXPECT_EQ(module->globals.at("counter"), 4u);
  EXPECT_EQ(module->globals.at("table"), 256u);
}

TEST(Ptx, ReadsCostFromTheLaunch) {
  const auto module = parse_ptx(kText);
  ASSERT_TRUE(module);
  const PtxKernel& spin = module->kernels[0];
  ASSERT_TRUE(spin.cost.ns);
  uint8_t params[12] = {};
  const uint64_t iterations = 7;
  memcpy(params, &iterations, sizeof(iterations));
  EXPECT_EQ(evaluate(*spin.cost.ns, spin, {params, 32, 1}), 3500u);
}

TEST(Ptx, KernelWithNoAnnotationHasNoCost) {
  const auto module = parse_ptx(kText);
  ASSERT_TRUE(module);
  EXPECT_FALSE(module->kernels[2].cost.ns);
}

TEST(Ptx, DivisionByZeroLeavesTheValue) {
  PtxKernel kernel;
  PtxExpression expression{{PtxTerm::kNumber, false, 8}, {PtxTerm::kNumber, true, 0}};
  EXPECT_EQ(evaluate(expression, kernel, {}), 8u);
}

TEST(Ptx, HugeProductsSaturate) {
  PtxKernel kernel;
  PtxExpression expression(8, PtxTerm{PtxTerm::kNumber, false, UINT64_MAX});
  EXPECT_EQ(evaluate(expression, kernel, {}), uint64_t{1} << 62);
}

TEST(Ptx, TextWithoutAVersionIsNoPtx) {
  EXPECT_FALSE(parse_ptx("hello"));
  EXPECT_FALSE(parse_ptx(""));
}

}  // namespace
}  // namespace divvy::simgpu
