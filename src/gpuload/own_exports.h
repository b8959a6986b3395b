// The functions that one loaded library exports, read from its own symbol table. dlsym answers with
// whatever a library in front of it wants to be called instead; this does not ask. Built and used
// by one thread while the library stays loaded.
#pragma once

#include <string_view>
#include <unordered_map>

namespace divvy::gpuload {

class OwnExports {
 public:
  // `library` is a handle of dlopen. A library without a readable table exports nothing.
  explicit OwnExports(void* library);

  // Null when the library does not export it.
  [[nodiscard]] void* find(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, void*> functions_;
};

}  // namespace divvy::gpuload
