// The texts under the options of the commands about queues, people and contexts.
#pragma once

namespace divvy::cli {

constexpr const char* kQueueFooter =
    R"(A queue has what its quota says, borrows what others leave, and gives that back when
they want it. Queues are a tree: research/vision is a part of research.

Examples:
  divvy queue list
  divvy queue list -o wide --sort-by score
  divvy queue set research --gpu 4 --jobs 50)";

constexpr const char* kQueueSetFooter =
    R"(Takes effect at once and stays over restarts. What is not named has its default: no
limit, weight 1, borrowing allowed.

Examples:
  divvy queue set research --gpu 4 --user-gpu 2
  divvy queue set research/vision --gpu 1 --no-borrow
  divvy queue set notebooks --idle-after 30m --idle-warning 10m
  divvy queue set research --default-time-limit 1h --max-time-limit 24h)";

constexpr const char* kQuotaFooter = R"(Examples:
  divvy quota list
  divvy quota set ada --gpu 2 --jobs 10
  divvy quota reset ada)";

constexpr const char* kQuotaSetFooter =
    R"(What is not named has no limit. Jobs that run already stay; new ones wait.

Examples:
  divvy quota set ada --gpu 2.5 --gpu-mem 100GiB --jobs 10)";

constexpr const char* kUsageFooter =
    R"(A GPU hour is a whole GPU for an hour, or a half for two. Operators see everybody's,
others their own.

Examples:
  divvy usage --since 30d
  divvy usage --by queue --since 2026-11-01 --before 2026-12-01
  divvy usage --by job --user ada -o csv > ada.csv)";

constexpr const char* kAuditFooter =
    R"(Every request that is not only about reading, newest first: also those that were denied or
refused. Operators see everybody's, others their own. Nothing changes an entry; it is kept
for 400 days. An action is the operationId of the API's description.

Examples:
  divvy audit
  divvy audit --user ada --since 7d
  divvy audit --action openChannel          who looked into jobs: exec, attach, cp, ports
  divvy audit --since 30d -n 1000000 -o csv > audit.csv)";

constexpr const char* kUserFooter =
    R"(Users of this machine are known by their names in /etc/passwd and need not be added.
An admin sees everything and may change everything.

Examples:
  divvy user add ada --role admin
  divvy user set ada --disable
  divvy user list)";

constexpr const char* kTokenFooter =
    R"(On this machine's socket no token is needed: the kernel says who you are. From another
machine a token says it. divvyd keeps only a hash of it.

Examples:
  divvy token create --label laptop --expires 90d --to ~/.config/divvy/token
  divvy token list
  divvy token revoke k3f9)";

constexpr const char* kSecretFooter =
    R"(Only its owner's jobs get a secret, and nobody is shown its value again, the owner
neither. It is in no job file, list or log, and divvyd keeps it encrypted.

Examples:
  divvy secret set HF_TOKEN                        typed, and not shown
  divvy secret set WANDB --from-file ~/wandb.key
  divvy submit --secret HF_TOKEN --gpu 1 -- python train.py
  divvy submit --secret WANDB_API_KEY=WANDB --gpu 1 -- python train.py)";

constexpr const char* kSecretSetFooter =
    R"(The value is typed, or comes from standard input or a file, without the end of its last
line. Jobs get it when they start: those that wait have the new value, those that run the old.

Examples:
  divvy secret set HF_TOKEN
  pass show hub | divvy secret set HF_TOKEN
  divvy secret set DEPLOY_KEY --from-file key.txt)";

constexpr const char* kLoginFooter =
    R"(Prints an address and a code. Whoever opens the address in a browser, on any machine, and
enters the code there signs this command in; compare it, and enter no code that somebody
else sent you. divvyd has to be set up for it (sign_in.issuer). The token is kept beside
the file of contexts, readable for you only; it expires (sign_in.token_time).

Examples:
  divvy context add lab --at https://gpu.example:7443
  divvy login --context lab)";

constexpr const char* kLogoutFooter =
    R"(The token is refused from now on, wherever else it was copied to.

Examples:
  divvy logout --context lab)";

constexpr const char* kContextFooter =
    R"(A context is a divvyd with a name: where it is, whose certificates to believe, which
token to show. local is the one of this machine. --context and --server go before
DIVVY_CONTEXT and DIVVY_SERVER, and those before the file. DIVVY_TOKEN goes before
the token file. They are kept in ~/.config/divvy/config.yaml, which only you can read.

With --kube it is a Kubernetes cluster on which Divvy is installed: jobs are pods, and
who you are and what you may is what Kubernetes says of the credentials in your
kubeconfig.

Examples:
  divvy context add lab --at https://gpu.example:7443 --ca ca.pem --token-file token
  divvy context add prod --kube --namespace team-a
  divvy context use lab
  divvy --context local list
  divvy context list)";

constexpr const char* kConfigFooter = R"(Settings:
  context                the context in use
  queue                  for `divvy submit` where nothing else names one
  contexts.NAME.server   and .ca and .token_file
  contexts.NAME.kubeconfig  and .kube_context and .namespace, of a cluster

Examples:
  divvy config view
  divvy config set queue research/vision
  divvy config get contexts.lab.server)";

}  // namespace divvy::cli
