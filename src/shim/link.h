// What the gates need of the session beyond session.h: the descriptors behind the pages, the
// socket, and joining again after the daemon was restarted. For gate.cc and watcher.cc.
#pragma once

#include "shim/session.h"

namespace divvy::shim {

wire::LanesPage* lanes();
int lanes_fd();
int control_fd();
int session_socket();

// One try to register again; the old socket is closed. Control page and descriptor are new when it
// answers true.
bool rejoin();

// Tells a sleeping daemon that there is work. One system call; not for every launch.
void ring_doorbell();

// In a forked child: forgets contexts and lanes of the parent.
void link_forget_after_fork();

}  // namespace divvy::shim
