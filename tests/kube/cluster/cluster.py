"""A whole cluster in a folder: made, looked at and put away."""
import concurrent.futures
import fcntl
import hashlib
import http.client
import json
import pathlib
import shutil
import ssl
import subprocess
import sys
import time

from . import cgroups, control_plane, image, network, node
from .certificates import Authority
from .machine import Machine

_SOURCE = pathlib.Path(__file__).resolve().parents[3]
NODES = (1, 2)


class Missing(Exception):
    """Something that the machine would have to have."""


def programs():
    result = subprocess.run([_SOURCE / "tools" / "kube-programs"], stdout=subprocess.PIPE, text=True)
    if result.returncode == 77:
        raise Missing("Go is missing")
    if result.returncode != 0:
        raise RuntimeError("the programs of the cluster cannot be built")
    return result.stdout.strip()


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).absolute()
        # Everything outside of the folder has a name that follows from the folder, so that it is
        # found again when nothing but the folder's name is known.
        self.id = "dk" + hashlib.sha256(str(self.folder).encode()).hexdigest()[:7]
        self.authority = Authority(self.folder / "pki")

    # --- What is known about it ----------------------------------------------------------------
    @property
    def _record(self):
        return self.folder / "cluster.json"

    def recorded(self):
        if not self._record.exists():
            raise RuntimeError(f"there is no cluster in {self.folder}; tools/kube-cluster up makes one")
        return json.loads(self._record.read_text())

    @property
    def network(self):
        return network.Network(self.id, self.recorded()["block"])

    @property
    def kubeconfig(self):
        return self.authority.folder / "admin.kubeconfig"

    def program(self, name):
        return str(pathlib.Path(self.recorded()["programs"]) / name)

    def machine(self, name):
        return Machine(self.id, name, self.folder / name, self.recorded()["programs"])

    @property
    def control(self):
        return self.machine("control")

    @property
    def nodes(self):
        return [self.machine(f"node-{number}") for number in NODES]

    def get(self, path):
        """What the API server answers, or nothing as long as it does not."""
        pki = self.authority
        context = ssl.create_default_context(cafile=pki.certificate("ca"))
        context.load_cert_chain(pki.certificate("admin"), pki.key("admin"))
        connection = http.client.HTTPSConnection(self.network.machine_address(0), 443, timeout=5,
                                                 context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            return body if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    # --- Up -----------------------------------------------------------------------------------
    def up(self, gpus):
        with self._alone():
            if self._record.exists() and self.get("/readyz"):
                return False
            self._destroy()
            try:
                self._create(gpus)
            except BaseException:
                self._show_logs()
                raise
            return True

    def _create(self, gpus):
        built = programs()
        self.folder.mkdir(parents=True, exist_ok=True)
        block = network.free_block(int(self.id[2:], 16))
        self._record.write_text(json.dumps({"programs": built, "block": block, "gpus": gpus}))
        (self.folder / "bin").symlink_to(built)
        self.authority.create()
        net = self.network
        net.create()
        machines = [self.control, *self.nodes]
        for number, machine in enumerate(machines):
            machine.create()
            net.connect(machine, number, NODES)
        net.route_from_here(NODES)

        control_plane.define(self.control, self.authority, net)
        self.control.start("etcd")
        self.control.start("kube-apiserver")
        for number, machine in zip(NODES, self.nodes):
            node.define(machine, self.authority, net, number, gpus)
            machine.start("containerd")
        self.load(self._base_images())
        # Clients that start before their server wait longer than it takes.
        self._wait("the API server", lambda: self.get("/readyz"))
        for machine in self.nodes:
            machine.start("kubelet")
        for name in ("kube-controller-manager", "kube-scheduler"):
            self.control.start(name)
        self._wait("the nodes", self._nodes_are_ready)
        for machine in machines:
            machine.start("kube-proxy")
        self._wait("the service account of pods",
                   lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default"))
        self._wait("the addresses of services",
                   lambda: all(self._has_services(machine) for machine in machines))

    def _wait(self, what, condition):
        deadline = time.monotonic() + 300
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: not ready after five minutes")
            time.sleep(0.05)

    def _nodes_are_ready(self):
        items = json.loads(self.get("/api/v1/nodes") or "{}").get("items", [])
        return len(items) == len(NODES) and all(
            condition["status"] == "True" for item in items
            for condition in item["status"].get("conditions", []) if condition["type"] == "Ready")

    @staticmethod
    def _has_services(machine):
        rules = machine.run(["iptables", "-t", "nat", "-S", "KUBE-SERVICES"], capture_output=True)
        return control_plane.API_SERVICE.encode() in rules.stdout

    def _base_images(self):
        archives = []
        pause = image.Layer()
        pause.file("/pause", self.program("pause"))
        archives.append((self.folder / "pause.tar", node.PAUSE_IMAGE, pause,
                         {"Entrypoint": ["/pause"]}))
        busybox = image.Layer()
        busybox.busybox()
        for name in ("/tmp", "/etc", "/root"):
            busybox.folder(name)
        busybox.text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        archives.append((self.folder / "busybox.tar", "localhost/busybox:1", busybox,
                         {"Cmd": ["sh"], "Env": ["PATH=/bin"]}))
        for archive in archives:
            image.write(*archive)
        return [archive[0] for archive in archives]

    def load(self, archives):
        """Puts images on every node."""

        def import_on(machine):
            self._wait("containerd", lambda: machine.run(node.ctr(machine, "version"),
                                                         capture_output=True).returncode == 0)
            for archive in archives:
                result = machine.run(node.ctr(machine, "images", "import", "--local", archive),
                                     capture_output=True, text=True)
                if result.returncode != 0:
                    raise RuntimeError(f"{archive} on {machine.name}: {result.stderr}")

        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(import_on, self.nodes))

    def _show_logs(self):
        for log in sorted(self.folder.glob("*/log/*")):
            lines = log.read_text(errors="replace").splitlines()[-5:]
            if lines:
                print(f"--- {log.relative_to(self.folder)}", *lines, sep="\n", file=sys.stderr)

    # --- Down ---------------------------------------------------------------------------------
    def down(self):
        with self._alone():
            self._destroy()
        self._lock.unlink(missing_ok=True)

    def _destroy(self):
        cgroups.destroy(self.id)
        network.Network(self.id, 0).destroy()
        if self._record.exists():
            shutil.rmtree(self.folder)

    @property
    def _lock(self):
        return self.folder.with_name(self.folder.name + ".lock")

    def _alone(self):
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        file = open(self._lock, "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        return file
