// For tests of single hooks, with functions of their own in g_cuda: this process as a tenant with
// one slice of 4 GiB, on a fake daemon. A process is one tenant's for good, so all tests of a
// program share it.
#pragma once

#include "shim/fake_daemon.h"

namespace divvy::shim {

// Joins with the first call. The driver's device 0 is the slice's GPU from then on.
FakeDaemon& joined_tenant();

}  // namespace divvy::shim
