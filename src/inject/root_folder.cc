#include "inject/root_folder.h"

#include <algorithm>
#include <deque>
#include <fstream>
#include <iterator>

namespace divvy::inject {
namespace {

namespace fs = std::filesystem;

// As many as the kernel follows.
constexpr int kMostLinks = 40;

}  // namespace

std::optional<fs::path> RootFolder::resolve(const fs::path& inside) const {
  std::deque<fs::path> left(inside.begin(), inside.end());
  fs::path at;  // Below the root, without links
  int links = 0;
  while (!left.empty()) {
    const fs::path part = std::move(left.front());
    left.pop_front();
    if (part == "/") {
      at.clear();
    } else if (part == "..") {
      at = at.parent_path();
    } else if (!part.empty() && part != ".") {
      const fs::path next = at / part;
      std::error_code code;
      const fs::file_status status = fs::symlink_status(folder_ / next, code);
      if (!fs::exists(status)) return std::nullopt;
      if (!fs::is_symlink(status)) {
        at = next;
        continue;
      }
      if (++links > kMostLinks) return std::nullopt;
      const fs::path target = fs::read_symlink(folder_ / next, code);
      if (code) return std::nullopt;
      left.insert(left.begin(), target.begin(), target.end());
    }
  }
  return folder_ / at;
}

fs::path RootFolder::inside(const fs::path& resolved) const {
  return "/" / resolved.lexically_relative(folder_);
}

std::vector<std::string> RootFolder::names_in(const fs::path& inside) const {
  std::vector<std::string> names;
  const auto folder = resolve(inside);
  if (!folder) return names;
  std::error_code code;
  for (fs::directory_iterator entry(*folder, code), end; !code && entry != end;
       entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::optional<std::string> RootFolder::read(const fs::path& inside, std::size_t most) const {
  const auto path = resolve(inside);
  if (!path) return std::nullopt;
  std::ifstream file(*path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text(most, '\0');
  file.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace divvy::inject
