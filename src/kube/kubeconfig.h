// A kubeconfig file, read: the server, the authority and the user of one context. Pure; no file but
// the given text is looked at. Callable from any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::kube {

// Something that stands in the kubeconfig itself (decoded) or in a file that it names.
struct TextOrFile {
  std::string text;
  std::string file;  // As it is written there: relative to the kubeconfig
  [[nodiscard]] bool empty() const { return text.empty() && file.empty(); }
};

struct Kubeconfig {
  std::string context;
  std::string server;  // "https://10.0.0.1:6443"
  std::string tls_server_name;
  TextOrFile authority;
  TextOrFile certificate;  // Of the user
  TextOrFile key;
  TextOrFile token;
  std::string space;  // The namespace; "default" where none is given
};

// `context` empty: the current one. Whatever Divvy does not do (programs that make tokens,
// passwords, proxies, servers that nobody checks) is refused by its name and with the way out.
// Messages never contain a secret.
[[nodiscard]] Result<Kubeconfig> parse_kubeconfig(std::string_view text,
                                                  const std::string& context = {});

}  // namespace divvy::kube
