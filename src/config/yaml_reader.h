// YAML text as a small tree in which everything knows its line and column. The library behind it
// (yaml-cpp) and its exceptions stay inside yaml_reader.cc.
//
// Made for configuration files, so less than YAML: one document, no anchors and aliases (they can
// make a few lines as large as memory), no tags, no key twice, limits on size and depth. Any bytes
// are safe to pass. Pure, callable from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace divvy::config {

constexpr std::size_t kMaxYamlBytes = 256 * 1024;
constexpr int kMaxYamlDepth = 8;

// Both count from one. Zero: about the whole file.
struct Place {
  int line = 0;
  int column = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

// Something that is wrong at a place, in one line that ends without a full stop.
struct Problem {
  Place at;
  std::string what;
  // By place first.
  friend auto operator<=>(const Problem&, const Problem&) = default;
};

struct YamlKey {
  std::string text;
  Place at;
};

struct YamlNode {
  enum class Kind { kNothing, kWord, kList, kMap };
  Kind kind = Kind::kNothing;
  Place at;
  std::string word;             // Of a kWord
  bool quoted = false;          // The word stood in quotes: it is text, whatever it looks like
  std::vector<YamlNode> items;  // Of a kList; of a kMap the values, in the order of `keys`
  std::vector<YamlKey> keys;
};

struct YamlDocument {
  YamlNode root;                  // What could be read; kNothing for an empty file
  std::vector<Problem> problems;  // In the order of their places. The text is refused if any
};

[[nodiscard]] YamlDocument read_yaml(std::string_view text);

}  // namespace divvy::config
