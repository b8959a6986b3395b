// For tests of this room: the simulated libnvidia-ml.so.1 as a program sees it, loaded at run time,
// on a private state.
#pragma once

#include <dlfcn.h>

#include <vector>

#include "abi/nvml.h"
#include "simgpu/state_fixture.h"

namespace divvy::simgpu {

class NvmlFixture : public StateFixture {
 protected:
  NvmlFixture() {
    void* library = dlopen(SIMGPU_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library, nullptr) << dlerror();
#define DIVVY_NVML(symbol, arguments) \
  symbol = reinterpret_cast<symbol##_fn>(load(library, #symbol));
#include "abi/nvml_functions.inc"
    nvmlErrorString = reinterpret_cast<nvmlErrorString_fn>(load(library, "nvmlErrorString"));
  }

  ~NvmlFixture() override {
    while (nvmlShutdown() == NVML_SUCCESS) {
    }
  }

  void start_nvml(const std::string& gpus) {
    start(gpus);
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  }

  void start_nvml_yaml(const std::string& yaml) {
    start_yaml(yaml);
    ASSERT_EQ(nvmlInit_v2(), NVML_SUCCESS);
  }

  nvmlDevice_t device(unsigned int index) {
    nvmlDevice_t handle = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &handle), NVML_SUCCESS);
    return handle;
  }

  // Every entry point, under its own name.
#define DIVVY_NVML(symbol, arguments) symbol##_fn symbol = nullptr;
#include "abi/nvml_functions.inc"
  nvmlErrorString_fn nvmlErrorString = nullptr;

 private:
  static void* load(void* library, const char* symbol) {
    void* found = dlsym(library, symbol);
    EXPECT_NE(found, nullptr) << symbol;
    return found;
  }
};

}  // namespace divvy::simgpu
