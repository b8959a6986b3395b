// What every command that submits a job does with its document before it is sent. Runs on the main
// thread.
#pragma once

#include <boost/json/fwd.hpp>

#include "base/result.h"

namespace divvy::cli {

struct ClientConfig;
struct Session;
class Daemon;

// Fills in what this shell knows: the queue of the settings, the folder and the PATH (not for
// containers, and no PATH for other machines), a whole GPU where nothing else was said. Then
// checks it.
[[nodiscard]] Status complete_document(const Session& session, const Daemon& daemon,
                                       const ClientConfig& config, boost::json::object& document);

// One that runs, as `divvy run` does it: the first job of a stranger needs no other command first.
[[nodiscard]] Status have_daemon(const Session& session, const Daemon& daemon);

}  // namespace divvy::cli
