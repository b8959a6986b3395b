// For tests of this room: a private state of simulated GPUs that lives as long as one test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "simgpu/scratch.h"
#include "simgpu/state.h"

namespace divvy::simgpu {

class StateFixture : public ::testing::Test {
 protected:
  ~StateFixture() override {
    SharedState::remove(path_);
    unlink((path_ + ".yaml").c_str());
  }

  // GPUs from a list such as "4xH200".
  void start(const std::string& gpus) {
    unsetenv("DIVVY_SIM_CONFIG");
    setenv("DIVVY_SIM_GPUS", gpus.c_str(), 1);
    open();
  }

  void start_yaml(const std::string& yaml) {
    std::ofstream(path_ + ".yaml") << yaml;
    setenv("DIVVY_SIM_CONFIG", (path_ + ".yaml").c_str(), 1);
    open();
  }

  SharedState& state() { return *state_; }
  Gpu& gpu(int index) { return state_->gpu(index); }
  const std::string& path() const { return path_; }

  // Makes this process look like one that holds memory and a context on a GPU.
  int hold(int index, uint64_t bytes) {
    const int slot = state_->claim_slot();
    EXPECT_GE(slot, 0);
    EXPECT_TRUE(state_->reserve_bytes(index, slot, bytes));
    state_->shared().slot[slot].gpu[index].contexts.store(1);
    return slot;
  }

 private:
  void open() {
    setenv("DIVVY_SIM_STATE", path_.c_str(), 1);
    SharedState::remove(path_);
    std::string error;
    state_.reset(SharedState::open(&error));
    ASSERT_NE(state_, nullptr) << error;
  }

  std::string path_ = scratch("state");
  std::unique_ptr<SharedState> state_;
};

}  // namespace divvy::simgpu
