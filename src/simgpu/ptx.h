// Reads from PTX text what the simulation needs: entry points, their parameters, global variables,
// and what a kernel costs.
//
// Cost and effects are comments that a real driver ignores, one line per kernel:
//   //@simgpu spin ns=param0/2
//   //@simgpu copy ns=500 bytes=param2*8 copy=param0,param1,param2*4
//   //@simgpu fill ns=1000 fill32=param0,param1,param2
// An expression is numbers, param<i>, threads and blocks joined by * and /, from left to right.
// Pure; the text comes from a tenant, so every reading is bounded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace divvy::simgpu {

struct PtxParam {
  uint32_t offset = 0;
  uint32_t size = 0;
};

struct PtxTerm {
  enum Kind : uint8_t { kNumber, kParam, kThreads, kBlocks } kind = kNumber;
  bool divide = false;
  uint64_t value = 0;  // the number, or the parameter's index
};
using PtxExpression = std::vector<PtxTerm>;

struct PtxCost {
  std::optional<PtxExpression> ns;
  std::optional<PtxExpression> bytes;
  // fill32: address, count, value. copy: destination, source, bytes.
  std::vector<PtxExpression> fill32;
  std::vector<PtxExpression> copy;
};

struct PtxKernel {
  std::string name;
  std::vector<PtxParam> params;
  uint32_t param_bytes = 0;
  uint32_t static_shared = 0;
  PtxCost cost;
};

struct PtxModule {
  unsigned version = 0;  // major * 10 + minor
  unsigned target = 0;   // 70 for sm_70
  std::vector<PtxKernel> kernels;
  std::map<std::string, uint64_t> globals;  // name to size in bytes
};

// Nothing when the text is not PTX.
std::optional<PtxModule> parse_ptx(std::string_view text);

struct PtxLaunch {
  const uint8_t* params = nullptr;
  uint64_t threads = 0;
  uint64_t blocks = 0;
};
uint64_t evaluate(const PtxExpression& expression, const PtxKernel& kernel,
                  const PtxLaunch& launch);

}  // namespace divvy::simgpu
