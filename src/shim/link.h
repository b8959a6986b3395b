// What the gates need of the session beyond session.h: the lanes page, the socket, and joining
// again after the daemon was restarted. For gate.cc and watcher.cc.
#pragma once

#include "shim/session.h"

namespace divvy::shim {

wire::LanesPage* lanes();
// -1 when there is none, or the program has closed it.
int session_socket();

// One try to register again; the old socket is closed. The control page is another one when it
// answers true, and the lanes page too if it says so.
bool rejoin(bool* lanes_replaced);

// Tells a sleeping daemon that there is work. One system call; not for every launch.
void ring_doorbell();

// In a forked child: forgets contexts and lanes of the parent.
void link_forget_after_fork();

}  // namespace divvy::shim
