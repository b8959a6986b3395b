"""The keys and certificates of a test cluster, and the kubeconfig files that carry them."""
import base64
import json
import subprocess


def _openssl(*words):
    result = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"openssl {words[0]}: {result.stderr.strip()}")


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
# One day more than a cluster that was forgotten should live.
_DAYS = ("-days", "30")


class Authority:
    """Signs everything in one cluster. Its folder holds NAME.crt and NAME.key of each."""

    def __init__(self, folder):
        self.folder = folder

    def create(self):
        self.folder.mkdir(mode=0o700, parents=True)
        _openssl("req", "-x509", *_NEW_KEY, *_DAYS, "-subj", "/CN=divvy-test-cluster",
                 "-keyout", self.key("ca"), "-out", self.certificate("ca"))
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout",
                 "-out", self.key("service-accounts"))
        _openssl("ec", "-in", self.key("service-accounts"), "-pubout",
                 "-out", self.folder / "service-accounts.pub")

    def key(self, name):
        return self.folder / f"{name}.key"

    def certificate(self, name):
        return self.folder / f"{name}.crt"

    def issue(self, name, user, group=None, addresses=()):
        """A certificate for a client `user` in a `group`, or for a server at `addresses`."""
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        extensions = ["-addext", "keyUsage=digitalSignature",
                      "-addext", "extendedKeyUsage=clientAuth,serverAuth",
                      "-addext", "basicConstraints=critical,CA:FALSE"]
        if addresses:
            extensions += ["-addext", "subjectAltName=" + ",".join(addresses)]
        _openssl("req", "-x509", "-CA", self.certificate("ca"), "-CAkey", self.key("ca"), *_NEW_KEY,
                 *_DAYS, "-subj", subject, *extensions, "-keyout", self.key(name),
                 "-out", self.certificate(name))

    def kubeconfig(self, name, server):
        """Everything in one file, which can be taken elsewhere."""

        def data(path):
            return base64.b64encode(path.read_bytes()).decode()

        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [{"name": "test", "cluster": {
                "server": server, "certificate-authority-data": data(self.certificate("ca"))}}],
            "users": [{"name": name, "user": {
                "client-certificate-data": data(self.certificate(name)),
                "client-key-data": data(self.key(name))}}],
        }, indent=2))
        path.chmod(0o600)
        return path
