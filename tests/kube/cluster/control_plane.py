"""etcd, the API server, the controller manager and the scheduler on the first machine."""

SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
# What fake nodes do (started by who wants some): ready at once with a lease, pods likewise.
STAGES = ("node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease",
          "pod/fast/pod-ready", "pod/fast/pod-complete", "pod/fast/pod-delete")


def define(machine, authority, network):
    address = network.machine_address(0)
    server = f"https://{address}:443"
    authority.issue("kube-apiserver", "kube-apiserver", addresses=(
        f"IP:{address}", f"IP:{API_SERVICE}", "IP:127.0.0.1", "DNS:localhost", "DNS:kubernetes",
        "DNS:kubernetes.default", "DNS:kubernetes.default.svc"))
    authority.issue("admin", "admin", "system:masters")
    authority.issue("kube-controller-manager", "system:kube-controller-manager")
    authority.issue("kube-scheduler", "system:kube-scheduler")
    authority.issue("kube-proxy", "system:kube-proxy")
    for name in ("admin", "kube-controller-manager", "kube-scheduler", "kube-proxy"):
        authority.kubeconfig(name, server)
    pki = authority.folder

    machine.define("etcd", [
        machine.programs / "etcd", "--data-dir", "/var/lib/etcd",
        "--listen-client-urls", "http://127.0.0.1:2379",
        "--advertise-client-urls", "http://127.0.0.1:2379",
        "--listen-peer-urls", "http://127.0.0.1:2380",
        # What is lost with this machine's power is nobody's loss.
        "--unsafe-no-fsync"])
    machine.define("kube-apiserver", [
        machine.programs / "kube-apiserver", "--etcd-servers", "http://127.0.0.1:2379",
        "--secure-port=443", f"--advertise-address={address}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--tls-cert-file={pki}/kube-apiserver.crt",
        f"--tls-private-key-file={pki}/kube-apiserver.key",
        f"--client-ca-file={pki}/ca.crt", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
        # Machine names mean nothing without DNS.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-accounts.pub",
        f"--service-account-signing-key-file={pki}/service-accounts.key"])
    machine.define("kube-controller-manager", [
        machine.programs / "kube-controller-manager",
        f"--kubeconfig={pki}/kube-controller-manager.kubeconfig",
        "--use-service-account-credentials", f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/service-accounts.key", "--leader-elect=false"])
    machine.define("kube-scheduler", [
        machine.programs / "kube-scheduler", f"--kubeconfig={pki}/kube-scheduler.kubeconfig",
        "--leader-elect=false"])
    stages = machine.folder / "etc" / "kwok-stages.yaml"
    stages.write_text("\n---\n".join(
        (machine.programs / "kwok-stages" / f"{name}.yaml").read_text() for name in STAGES))
    machine.define("kwok", [
        machine.programs / "kwok", f"--kubeconfig={pki}/admin.kubeconfig",
        "--config=/etc/kwok-stages.yaml", "--node-lease-duration-seconds=40",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"])
    define_proxy(machine, authority, network, "node-1")


def define_proxy(machine, authority, network, node):
    """Makes the addresses of services work on the machine: on the control plane for the API server,
    which calls webhooks by them."""
    config = machine.folder / "etc" / "kube-proxy.yaml"
    config.write_text(f"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
hostnameOverride: {node}
clusterCIDR: {network.all_pods}
clientConnection:
  kubeconfig: {authority.folder}/kube-proxy.kubeconfig
conntrack:  # All nothing: these settings are the whole machine's
  maxPerCore: 0
  min: 0
  tcpEstablishedTimeout: 0s
  tcpCloseWaitTimeout: 0s
iptables:
  minSyncPeriod: 0s
""")
    machine.define("kube-proxy",
                   [machine.programs / "kube-proxy", "--config", "/etc/kube-proxy.yaml"])
