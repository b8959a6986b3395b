// Words and variables as exec and posix_spawn take them.
#pragma once

#include <string>
#include <vector>

namespace divvy::sys {

// Into `texts`, which outlives it, with a null at the end.
[[nodiscard]] inline std::vector<char*> exec_pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace divvy::sys
