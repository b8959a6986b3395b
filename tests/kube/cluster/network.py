"""The network of a test cluster: one bridge on this machine, a cable from it to each machine of the
cluster, and routes to the pods of each node. This machine reaches all of them as well.
"""
import ipaddress
import json
import subprocess


def _ip(lines, netns_of=None):
    """Runs a batch of `ip` in one process, here or in a machine's network."""
    command = ["ip", "-batch", "-"]
    if netns_of:
        command = ["nsenter", "--target", str(netns_of.pid), "--net", "--", *command]
    result = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"ip: {result.stderr.strip()}\n" + "\n".join(lines))


class Network:
    """10.BLOCK.0.0/16 of which .0.x are machines and .N.x the pods of node N."""

    def __init__(self, bridge, block):
        self.bridge = bridge
        self.block = block

    def machine_address(self, number):
        return f"10.{self.block}.0.{10 + number}"

    def pod_range(self, number):
        return f"10.{self.block}.{number}.0/24"

    @property
    def all_pods(self):
        return f"10.{self.block}.0.0/16"

    def create(self):
        _ip([f"link add {self.bridge} type bridge",
             f"addr add 10.{self.block}.0.1/24 dev {self.bridge}",
             f"link set {self.bridge} up"])

    def connect(self, machine, number, nodes):
        """Machine 0 is the control plane; `nodes` are the numbers of those with pods."""
        here = f"{self.bridge}-{number}"
        _ip([f"link add {here} type veth peer name eth0 netns {machine.pid}",
             f"link set {here} master {self.bridge} up"])
        _ip([f"addr add {self.machine_address(number)}/24 dev eth0",
             "link set eth0 up",
             f"route add default via 10.{self.block}.0.1"] +
            [f"route add {self.pod_range(n)} via {self.machine_address(n)}"
             for n in nodes if n != number], netns_of=machine)

    def route_from_here(self, nodes):
        _ip([f"route add {self.pod_range(n)} via {self.machine_address(n)}" for n in nodes])

    def destroy(self):
        # A machine's end of a cable goes with its network, but that may live on for a while: as long
        # as one of its connections is being closed.
        links = subprocess.run(["ip", "-json", "link"], check=True, capture_output=True, text=True)
        for link in json.loads(links.stdout):
            if link["ifname"].startswith(self.bridge):
                subprocess.run(["ip", "link", "delete", link["ifname"]], stderr=subprocess.DEVNULL)


def free_block(preferred):
    """A number for which nobody has routes or addresses on this machine, from `preferred` on."""
    output = subprocess.run(["ip", "-json", "route", "show", "table", "all"], check=True,
                            capture_output=True, text=True).stdout
    taken = []
    for route in json.loads(output):
        try:
            taken.append(ipaddress.ip_network(route["dst"], strict=False))
        except ValueError:
            pass  # "default"
    for step in range(64):
        block = 160 + (preferred + step) % 64
        mine = ipaddress.ip_network(f"10.{block}.0.0/16")
        if not any(mine.overlaps(other) for other in taken if other.version == 4):
            return block
    raise RuntimeError("no network of 10.160.0.0 to 10.223.0.0 is free")
