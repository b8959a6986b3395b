// The shepherd: the process that a member belongs to. It starts the member's command as the job's
// user, writes its output to the log, serves requests (run/shepherd_messages.h), ends it when it is
// told to, and in the end ends all that is left of it and writes the last word into the folder. It
// is no child of the daemon and needs none: a daemon may come and go.
//
// `divvyd --shepherd FOLDER` is one of these, with the channel below. One thread.
#pragma once

#include <filesystem>
#include <string_view>

namespace divvy::run {

// The descriptor to which it writes kShepherdReady once the member is in its care, or why it is
// not, and which it closes then.
inline constexpr int kShepherdChannel = 3;
inline constexpr std::string_view kShepherdReady = "ready";
// Where the orders say so, the descriptor from which it reads the member's secrets
// (run/member_documents.h).
inline constexpr int kShepherdSecrets = 4;

// Returns at once in the process that was started; the shepherd is a child of it that nobody waits
// for. The exit status of whichever process this is.
[[nodiscard]] int run_shepherd(const std::filesystem::path& folder);

// Leaves nothing of the container of a member whose shepherd is gone, as its user. A process of its
// own too (`divvyd --remove-container FOLDER`): becoming the user takes capabilities that a daemon
// has only for what it starts. The exit status.
[[nodiscard]] int run_removal(const std::filesystem::path& folder);

}  // namespace divvy::run
