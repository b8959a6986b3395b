#include "cli/ssh_member.h"

namespace divvy::cli {
namespace {

// For any POSIX shell, and for sshd from OpenSSH 7.4 on. Keys are handed in by standard input: what
// others can see of a process is its arguments.
//   - `read` takes no byte more than its line from a pipe, so that the rest is sshd's.
//   - StrictModes wants no folder on the way to be writable for others, as /tmp is.
//   - `export -p` writes values so that a shell reads them back, whatever is in them. What belongs
//   to
//     the login and not to the job is left out.
//   - The session is a command of its own because sshd has no other way for values of any kind.
//     bash reads ~/.bashrc for a login without SHLVL only.
//   - sshd itself is in no slice: it is started again for each connection, by whom it does not
//   know.
constexpr const char* kScript = R"sh(fail() { printf 'divvy: %s\n' "$1" >&2; exit 1; }
user=$(id -un 2>/dev/null) || fail "the user of this job, number $(id -u), has no name there, and \
sshd wants one: add it to /etc/passwd there, or use divvy exec -t"
[ -z "$1" ] || [ "$1" = "$user" ] || fail "this job runs as $user and not as $1: say $user@ to ssh, \
or \"User $user\" in its configuration"
for sshd in /usr/sbin/sshd /usr/local/sbin/sshd /sbin/sshd /usr/bin/sshd "$(command -v sshd)"; do
  [ -x "$sshd" ] && break
  sshd=
done
[ -n "$sshd" ] || fail "there is no sshd in this job: install it where the job runs (apt-get install \
openssh-server; no service of it has to run), or use divvy exec -t"
shell=$(getent passwd "$user" 2>/dev/null) && shell=${shell##*:}
case $shell in
  */nologin | */false) fail "the user of this job, $user, has no login shell but $shell, with which \
ssh starts everything: chsh -s gives it one, and divvy exec needs none" ;;
esac
case $(getent shadow "$user" 2>/dev/null) in
  "$user":!*) fail "the account $user of this job is locked, and sshd lets nobody into one: \
divvy exec -t does" ;;
esac
# As root it wants to change its root folder, which root's members may not.
if [ "$(id -u)" = 0 ]; then
  while read -r name value; do [ "$name" = CapEff: ] && break; done </proc/self/status
  [ $((0x$value & 0x40000)) != 0 ] || fail "sshd cannot run in this job: it runs as root, without \
the right to change the root folder (CAP_SYS_CHROOT); run it as another user, or use divvy exec -t"
  mkdir -p /run/sshd
fi
umask 077
folder=$(mktemp -d "${TMPDIR:-/tmp}/divvy-ssh.XXXXXX") || fail "there is no folder for the keys of \
sshd to be had in ${TMPDIR:-/tmp}"
trap 'trap "" HUP INT TERM; rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
IFS= read -r login
printf '%s\n' "$login" >"$folder/login"
while IFS= read -r line && [ "$line" != . ]; do printf '%s\n' "$line"; done >"$folder/host"
printf '%s\n' "$PWD" >"$folder/here"
(
  unset TERM SHLVL PWD OLDPWD SHELL DISPLAY
  unset SSH_AUTH_SOCK SSH_CLIENT SSH_CONNECTION SSH_TTY SSH_ORIGINAL_COMMAND
  export -p
) >"$folder/environment"
cat >"$folder/session" <<'END'
folder=${0%/*}
. "$folder/environment"
IFS= read -r here <"$folder/here"
cd "$HOME" 2>/dev/null || cd "$here" 2>/dev/null || cd /
unset folder here SHLVL
if [ -n "${SSH_ORIGINAL_COMMAND+x}" ]; then exec "$SHELL" -c "$SSH_ORIGINAL_COMMAND"; fi
exec "$SHELL" -l
END
sftp=
for file in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server \
    /usr/libexec/sftp-server /usr/lib/ssh/sftp-server /usr/lib64/ssh/sftp-server; do
  [ -x "$file" ] && sftp="Subsystem sftp $file" && break
done
cat >"$folder/config" <<END
HostKey "$folder/host"
AuthorizedKeysFile "$folder/login"
AuthenticationMethods publickey
AllowUsers $user
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
X11Forwarding no
AcceptEnv LANG LC_* COLORTERM
LogLevel ERROR
ForceCommand exec sh "$folder/session"
$sftp
END
unset LD_PRELOAD
"$sshd" -i -e -f "$folder/config"
)sh";

}  // namespace

std::vector<std::string> sshd_command(const std::string& user) {
  return {"sh", "-c", kScript, "divvy-ssh", user};
}

std::string sshd_first_input(const SshKeys::Handover& keys) {
  std::string lines = keys.login + "\n" + keys.host;
  if (!lines.ends_with('\n')) lines += '\n';
  return lines + ".\n";
}

}  // namespace divvy::cli
