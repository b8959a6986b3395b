"""containerd and the kubelet on a machine: a node, with simulated GPUs of its own."""
import hashlib
import json
import uuid

from . import control_plane

PROGRAMS = ("containerd", "kubelet", "kube-proxy")
PAUSE_IMAGE = "localhost/pause:1"

# runc may neither lower the OOM score nor raise limits where a capability is missing.
_CONTAINERD = """version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause}"

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "/etc/cni/net.d"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
"""

_KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: {pki}/ca.crt}}
authorization: {{mode: Webhook}}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
maxPods: 250
# The disk is this machine's, and how full it is says nothing about the cluster.
evictionHard: {{memory.available: 50Mi, nodefs.available: 0%, imagefs.available: 0%}}
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
"""


def define(machine, authority, network, number, gpus):
    name = machine.name
    authority.issue(name, f"system:node:{name}", "system:nodes",
                    addresses=(f"IP:{network.machine_address(number)}", f"DNS:{name}"))
    server = f"https://{network.machine_address(0)}:443"
    authority.kubeconfig(name, server)
    etc = machine.folder / "etc"

    (etc / "containerd").mkdir()
    (etc / "containerd" / "config.toml").write_text(_CONTAINERD.format(pause=PAUSE_IMAGE))
    (etc / "cni" / "net.d").mkdir(parents=True)
    (etc / "cni" / "net.d" / "10-pods.conflist").write_text(json.dumps({
        "cniVersion": "0.4.0", "name": "pods", "plugins": [
            {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": network.pod_range(number)}]],
                      "routes": [{"dst": "0.0.0.0/0"}]}},
            {"type": "portmap", "capabilities": {"portMappings": True}}]}, indent=2))
    (etc / "kubelet.yaml").write_text(_KUBELET.format(pki=authority.folder))
    (etc / "divvy").mkdir()
    (etc / "divvy" / "simulated-gpus.yaml").write_text(_simulated_gpus(name, gpus))

    machine.define("containerd", [machine.programs / "containerd",
                                  "--config", "/etc/containerd/config.toml"])
    machine.define("kubelet", [
        machine.programs / "kubelet", "--config", "/etc/kubelet.yaml",
        f"--kubeconfig={authority.folder}/{name}.kubeconfig", f"--hostname-override={name}",
        f"--node-ip={network.machine_address(number)}"])
    control_plane.define_proxy(machine, authority, network, name)


def _simulated_gpus(node, gpus):
    """GPUs of the same model would have the same UUIDs on every node."""
    lines = ["gpus:"]
    for part in gpus.split(","):
        count, _, model = part.rpartition("x")
        for index in range(int(count or 1)):
            digest = hashlib.sha256(f"{node} {model} {index}".encode()).digest()
            lines += [f"  - model: {model}", f"    uuid: GPU-{uuid.UUID(bytes=digest[:16])}"]
    return "\n".join(lines) + "\n"


def ctr(machine, *words):
    return [machine.programs / "ctr", "--namespace", "k8s.io", *words]
