// The facts of the toolkit's cuda.h. Built only where a toolkit of our CUDA version was found.

// Without this the header renames entry points to their newest version and hides the older ones.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "abi/abi_facts.h"

namespace divvy::abi {

std::vector<Fact> toolkit_cuda_facts() {
  return {
#include "abi/cuda_facts_list.inc"
  };
}

}  // namespace divvy::abi
