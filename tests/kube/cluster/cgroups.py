"""The control groups of a machine of the test cluster, with cgroup v2, v1 and both at once.

Every process of a cluster is in a group of the cluster's name: that is how `down` finds all of them,
whoever started them and whatever has been killed before.
"""
import os
import pathlib
import signal
import time

_ROOT = "/sys/fs/cgroup"

class Hierarchy:
    """One mounted tree of groups."""

    def __init__(self, mount_point, kind, options):
        self.mount_point = pathlib.Path(mount_point)
        self.kind = kind  # cgroup or cgroup2
        self.options = options  # Of the mount, for one that shows the same controllers

    @property
    def delegates(self):
        """In a pure v2 a group that hands controllers down to its children has no processes."""
        return self.kind == "cgroup2" and str(self.mount_point) == _ROOT

    def group(self, cluster, machine):
        return self.mount_point / cluster / machine

    def leaf(self, cluster, machine):
        """Where the machine's own processes are, beside the groups that the kubelet makes."""
        group = self.group(cluster, machine)
        return group / "init" if self.delegates else group

    def make(self, cluster, machine):
        for group in (self.mount_point / cluster, self.group(cluster, machine)):
            group.mkdir(exist_ok=True)
            # A new group of v1's cpuset has no processors, and takes no process before it has.
            for name in ("cpuset.cpus", "cpuset.mems"):
                if self.kind == "cgroup" and (group / name).exists():
                    (group / name).write_text((group.parent / name).read_text())
            if self.delegates:
                _hand_down(group.parent)

    def settle(self, cluster, machine):
        if not self.delegates:
            return
        group, leaf = self.group(cluster, machine), self.leaf(cluster, machine)
        leaf.mkdir()
        for pid in (group / "cgroup.procs").read_text().split():
            (leaf / "cgroup.procs").write_text(pid)
        _hand_down(group)


def _hand_down(group):
    available = (group / "cgroup.controllers").read_text().split()
    (group / "cgroup.subtree_control").write_text(" ".join("+" + name for name in available))


def hierarchies():
    result = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            kept = [o for o in options.split(",") if o not in ("rw", "ro", "xattr")
                    and (kind == "cgroup" or o == "nsdelegate")]
            if kind == "cgroup" and kept[0].startswith("name="):
                kept.insert(0, "none")
            result.append(Hierarchy(left.split(" ")[4], kind, ",".join(kept)))
    if not result:
        raise RuntimeError("no control groups are mounted (/sys/fs/cgroup)")
    return result


def make(cluster, machine):
    for hierarchy in hierarchies():
        hierarchy.make(cluster, machine)


def enter_root(cluster, machine):
    """Called between fork and exec by the process whose namespace of groups begins here."""
    for hierarchy in hierarchies():
        _move(hierarchy.group(cluster, machine))


def settle(cluster, machine):
    """Called when that namespace is there."""
    for hierarchy in hierarchies():
        hierarchy.settle(cluster, machine)


def enter(cluster, machine):
    """Called between fork and exec by everything that is to run on the machine."""
    for hierarchy in hierarchies():
        _move(hierarchy.leaf(cluster, machine))


def _move(group):
    (group / "cgroup.procs").write_text(str(os.getpid()))


def mount_script():
    """Shell lines that mount the same trees again, as a new namespace of groups shows them."""
    trees = hierarchies()
    lines = []
    if not any(str(tree.mount_point) == _ROOT for tree in trees):
        lines.append(f"mount -t tmpfs -o mode=755 groups {_ROOT}")
    for tree in trees:
        options = f"-o {tree.options} " if tree.options else ""
        lines.append(f"mkdir -p {tree.mount_point}")
        lines.append(f"mount -t {tree.kind} {options}cgroup {tree.mount_point}")
    return "\n".join(lines)


def processes(cluster, machine=None):
    """All of a cluster, or those of a machine that are not in a pod."""
    found = set()
    for hierarchy in hierarchies():
        if machine:
            groups = [hierarchy.leaf(cluster, machine)]
        else:
            groups = [pathlib.Path(p) for p, _, _ in os.walk(hierarchy.mount_point / cluster)]
        for group in groups:
            try:
                found.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
            except OSError:
                pass  # It went away meanwhile.
    found.discard(0)  # Of another namespace of processes
    return found


def destroy(cluster):
    """Ends every process of the cluster and removes its groups. What is not there is no error."""
    deadline = time.monotonic() + 60
    while remaining := processes(cluster):
        if time.monotonic() > deadline:
            raise RuntimeError(f"these processes do not end: {sorted(remaining)}")
        for pid in remaining:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy.mount_point / cluster, topdown=False):
            while True:
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:  # EBUSY as long as the kernel buries the last process
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
