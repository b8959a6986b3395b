// The facts of the toolkit's nvml.h. Built only where one was found that knows all our names.

// Without this the header renames entry points to their newest version and hides the older ones.
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "abi/abi_facts.h"

namespace divvy::abi {

std::vector<Fact> toolkit_nvml_facts() {
  return {
#include "abi/nvml_facts_list.inc"
  };
}

}  // namespace divvy::abi
