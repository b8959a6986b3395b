// The facts of our own declarations of the CUDA driver's interface.

#include "abi/abi_facts.h"
#include "abi/cuda.h"

namespace divvy::abi {

std::vector<Fact> our_cuda_facts() {
  return {
#include "abi/cuda_facts_list.inc"
  };
}

}  // namespace divvy::abi
