// The texts under the options of `divvy session` and its commands.
#pragma once

namespace divvy::cli {

constexpr const char* kSessionFooter =
    R"(A session is a job that runs an app: a notebook, an editor, a shell. It has a slice like
every job, goes on when you log out or divvyd is replaced, and is reached from here through
divvyd alone.

Examples:
  divvy session start --gpu 0.3
  divvy session list
  divvy session open 17)";

constexpr const char* kSessionStartFooter =
    R"(Prints the address when the app answers, and passes connections on until Ctrl-C, which
leaves the session running. It ends after 12 hours (--time-limit), when it is stopped, or
by the rule for idle jobs of its queue. The app has to be installed where it runs, or in
the --image. What follows -- are arguments of the app.

Examples:
  divvy session start --gpu 0.3
  divvy session start --app code --gpu 0.5 --cwd ~/project --time-limit 2d
  divvy session start --app tensorboard -- --logdir runs
  divvy session start --app shell --gpu 1
  divvy session start --image my/jupyter:1 --mount $PWD:/work)";

constexpr const char* kSessionOpenFooter =
    R"(Waits until it runs, if it does not yet. Connections go on over a restart of divvyd and a
loss of the network of up to ten minutes.

Examples:
  divvy session open 17
  divvy session open jupyter --port 8888)";

constexpr const char* kSessionListFooter = R"(Columns:
  LEFT       until its time limit; `divvy session extend` gives it more
  IDLE ENDS  until it is ended because it does not use its GPU

Examples:
  divvy session list
  divvy session list -o json)";

constexpr const char* kSessionExtendFooter = R"(Examples:
  divvy session extend 17
  divvy session extend 17 --by 1d)";

constexpr const char* kSessionLogsFooter = R"(Examples:
  divvy session logs 17)";

constexpr const char* kSessionStopFooter = R"(Examples:
  divvy session stop 17)";

constexpr const char* kSessionAppsFooter =
    R"(Others are files in /etc/divvy/apps and ~/.config/divvy/apps: docs/sessions.md.

Examples:
  divvy session apps)";

}  // namespace divvy::cli
