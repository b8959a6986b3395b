// For tests: a folder of this process alone. Names by process number come back when numbers wrap
// round, and with them what a killed test left.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace divvy::simgpu {

// A path in the folder, which goes away when the test program ends.
inline std::string scratch(const std::string& name) {
  struct Folder {
    Folder() {
      if (mkdtemp(path.data()) == nullptr) abort();
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    std::string path = ::testing::TempDir() + "simgpu-XXXXXX";
  };
  static const Folder folder;
  return folder.path + "/" + name;
}

}  // namespace divvy::simgpu
