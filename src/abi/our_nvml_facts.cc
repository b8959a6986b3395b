// The facts of our own declarations of NVML's interface.

#include "abi/abi_facts.h"
#include "abi/nvml.h"

namespace divvy::abi {

std::vector<Fact> our_nvml_facts() {
  return {
#include "abi/nvml_facts_list.inc"
  };
}

}  // namespace divvy::abi
