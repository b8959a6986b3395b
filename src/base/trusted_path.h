// Whether other users could put something else in the place of a file: asked before a path in a
// place that everybody may write to (/tmp) is believed. Callable from any thread.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace divvy {

// Every folder on the way to `folder`, and the folder itself, can be changed by root and this user
// alone: it belongs to one of the two, and nobody else may write to it. On the way, but not at its
// end, also a folder with the sticky bit will do: what is in it cannot be replaced by others.
// Symbolic links are followed where they belong to one of the two.
// kPermissionDenied: somebody else could. kNotFound: there is no such folder.
[[nodiscard]] Status check_trusted_folder(const std::filesystem::path& folder);

}  // namespace divvy
