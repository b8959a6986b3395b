// The web console: pages and scripts that are part of the program (web/, packed by
// tools/build-web), and the headers under which browsers run them. It knows nothing about jobs or
// people: the pages ask the API like everybody else, at the same address. Callable from any thread.
#pragma once

#include <span>
#include <string_view>

#include "net/http.h"

namespace divvy::console {

// A file of the console, compressed with gzip.
struct Asset {
  std::string_view path;  // "/assets/main-1f3a.js"; what is below /assets/ never changes
  std::string_view content_type;
  std::string_view tag;  // Another one for other content
  std::string_view bytes;
};

// All that were packed; "/index.html" is the first. Empty: built without npm.
[[nodiscard]] std::span<const Asset> assets();

// The file of that path. The pages share one: whatever has no dot in its last name is the console's
// to show, so that links to jobs work from anywhere.
[[nodiscard]] net::HttpResponse serve(const net::HttpRequest& request,
                                      std::span<const Asset> files = assets());

// Belongs to the API, which is served beside the pages.
[[nodiscard]] bool is_for_api(std::string_view path);

// An answer of the API, for browsers: nothing of it is ever a page, whatever is in it.
void forbid_rendering(net::HttpResponse& answer);

}  // namespace divvy::console
