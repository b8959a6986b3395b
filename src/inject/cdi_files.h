// The CDI files that Divvy has written, in folders which others write to as well (/etc/cdi,
// /var/run/cdi): each replaced as a whole, so that a runtime reads the old one or the new one. A
// list says which files are ours; nothing else is ever removed, and a file that is not about
// Divvy's devices is not replaced.
//
// One caller at a time.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "base/result.h"
#include "inject/cdi_spec.h"

namespace divvy::inject {

class CdiFiles {
 public:
  // `list` is the file that remembers what is ours; its folder exists.
  explicit CdiFiles(std::filesystem::path list) : list_(std::move(list)) {}

  // Makes the folder where it is missing. Writes nothing where the same is there already.
  [[nodiscard]] Status write(const std::filesystem::path& file, const CdiSpec& spec);
  [[nodiscard]] Status remove(const std::filesystem::path& file);
  // Removes what is ours and not among `files`.
  [[nodiscard]] Status keep_only(const std::set<std::filesystem::path>& files);
  [[nodiscard]] std::set<std::filesystem::path> ours() const;

 private:
  [[nodiscard]] Status remember(const std::set<std::filesystem::path>& files) const;

  std::filesystem::path list_;
};

// "divvy.dev-gpu.json", "divvy.dev-slice_web.json"
[[nodiscard]] std::string cdi_file_name(const std::string& kind, const std::string& device = {});

// Can files be written into the folder? Makes it where it is missing.
[[nodiscard]] bool is_writable_folder(const std::filesystem::path& folder);

}  // namespace divvy::inject
