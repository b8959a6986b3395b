// Certificates for a test, made on the spot: nothing that expires lies in the tree. Only for tests.
#pragma once

#include <filesystem>
#include <string>

#include "net/tls.h"

namespace divvy::net {

// Writes `<name>.pem` and `<name>.key` into the folder: a certificate that signs itself, for the
// host name and 127.0.0.1, and its key (0600).
TlsIdentity make_test_identity(const std::filesystem::path& folder, const std::string& name,
                               const std::string& host);

}  // namespace divvy::net
