"""A machine of the test cluster: namespaces of its own (processes, network, mounts, host name, IPC,
control groups) around a program that only waits. Killing that one ends everything on the machine.

The standard paths are its own: /etc, /var, /run and /dev/shm. The rest is this machine's.
"""
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess

from . import cgroups

# The kubelet sets these, and they are not per namespace: it gets files to write into instead.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


class Machine:
    def __init__(self, cluster, name, folder, programs):
        self.cluster = cluster  # Of the group that its processes are in
        self.name = name
        self.folder = pathlib.Path(folder)
        self.programs = pathlib.Path(programs)  # What tools/kube-programs printed
        # Nothing of the caller's: neither proxies nor languages. containerd finds its shim in PATH.
        self.environment = {"PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                            "LC_ALL": "C.UTF-8", "TMPDIR": "/var/tmp"}

    # --- Making it ----------------------------------------------------------------------------
    def create(self):
        self._fill_etc()
        for name in ("lib", "log", "tmp", "cache"):
            (self.folder / "var" / name).mkdir(parents=True)
        (self.folder / "var" / "run").symlink_to("/run")
        for name, value in _KERNEL_SETTINGS.items():
            file = self.folder / "sys" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value + "\n")
        (self.folder / "log").mkdir()
        script = self.folder / "start.sh"
        script.write_text(self._start_script())

        cgroups.make(self.cluster, self.name)
        with open(self.folder / "log" / "start", "wb") as log:
            starter = subprocess.Popen(
                ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--fork",
                 "/bin/sh", str(script)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd="/",
                env=self.environment, start_new_session=True,
                preexec_fn=lambda: cgroups.enter_root(self.cluster, self.name))
        if starter.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{self.name} does not start:\n" +
                               (self.folder / "log" / "start").read_text())
        cgroups.settle(self.cluster, self.name)
        # The one that made the namespaces stays outside of them and waits for the first inside.
        first, = cgroups.processes(self.cluster, self.name) - {starter.pid}
        (self.folder / "pid").write_text(str(first))

    def _fill_etc(self):
        etc = self.folder / "etc"
        etc.mkdir(parents=True)
        # Programs of this machine run here: their libraries, and which iptables is meant.
        for name in ("passwd", "group", "nsswitch.conf", "protocols", "services", "ld.so.cache",
                     "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime"):
            source = pathlib.Path("/etc") / name
            if source.is_dir():
                shutil.copytree(source, etc / name, symlinks=True)
            elif source.exists():
                shutil.copy(source, etc / name)
        (etc / "hostname").write_text(self.name + "\n")
        (etc / "hosts").write_text(f"127.0.0.1 localhost {self.name}\n")
        (etc / "resolv.conf").write_text("# There is no DNS in the test cluster.\n")
        (etc / "machine-id").write_text(os.urandom(16).hex() + "\n")

    def _start_script(self):
        settings = "\n".join(f"[ ! -e /proc/sys/{name} ] || "
                             f"mount --bind {self.folder}/sys/{name} /proc/sys/{name}"
                             for name in _KERNEL_SETTINGS)
        return f"""# What the machine's first process does before it waits.
set -e
mount -t proc proc /proc
mount -t sysfs sysfs /sys
{cgroups.mount_script()}
{settings}
mount --bind {self.folder}/etc /etc
mount --bind {self.folder}/var /var
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs shm /dev/shm
# Pods with Bidirectional mounts need something to propagate to; none of it leaves the namespace.
mount --make-rshared /
hostname {self.name}
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
echo ready
exec {self.programs}/pause </dev/null >/dev/null 2>&1
"""

    # --- Programs on it -----------------------------------------------------------------------
    @property
    def pid(self):
        return int((self.folder / "pid").read_text())

    def inside(self, command):
        return ["nsenter", "--target", str(self.pid), "--mount", "--uts", "--ipc", "--net", "--pid",
                "--cgroup", "--", *map(str, command)]

    def run(self, command, **options):
        """Runs a command to its end."""
        return subprocess.run(self.inside(command), cwd="/", env=self.environment,
                              preexec_fn=lambda: cgroups.enter(self.cluster, self.name), **options)

    def define(self, name, command):
        """Says how a program is started, now and after every stop."""
        (self.folder / f"{name}.json").write_text(json.dumps([str(word) for word in command]))

    def command(self, name):
        file = self.folder / f"{name}.json"
        if not file.exists():
            known = sorted(path.stem for path in self.folder.glob("*.json"))
            raise RuntimeError(f"{self.name} has no program {name}; it has {', '.join(known)}")
        return json.loads(file.read_text())

    def start(self, name):
        command = self.command(name)
        if self.find(name):
            return
        with open(self.folder / "log" / name, "ab") as log:
            subprocess.Popen(self.inside(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             cwd="/", env=self.environment, start_new_session=True,
                             preexec_fn=lambda: cgroups.enter(self.cluster, self.name))

    def find(self, name):
        """The process of a program, if it runs."""
        command = b"\0".join(word.encode() for word in self.command(name)) + b"\0"
        for pid in cgroups.processes(self.cluster, self.name):
            try:
                if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() == command:
                    return pid
            except OSError:
                pass
        return None

    def stop(self, name, how=signal.SIGKILL):
        """Sends the signal; returns when the process is gone, or at once for SIGSTOP and SIGCONT."""
        pid = self.find(name)
        if pid is None:
            return
        handle = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(handle, how)
            if how not in (signal.SIGSTOP, signal.SIGCONT):
                select.select([handle], [], [])
        finally:
            os.close(handle)
