"""Container images from nothing: one layer of given files, as an archive that `ctr images import`,
`podman load` and `docker load` read (OCI layout, with docker's manifest.json beside it).
"""
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile


class Layer:
    """The files of an image. The same files make the same bytes: no times, no owners of here."""

    def __init__(self):
        self._bytes = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._bytes, mode="w")
        self._folders = set()

    def folder(self, path, mode=0o755):
        path = path.strip("/")
        if path in self._folders or not path:
            return
        self.folder(os.path.dirname(path))
        self._folders.add(path)
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(entry)

    def text(self, path, content):
        self._add(path, content.encode(), 0o644)

    def file(self, path, source):
        source = pathlib.Path(source)
        self._add(path, source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def link(self, path, target):
        self.folder(os.path.dirname(path))
        entry = tarfile.TarInfo(path.strip("/"))
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
        self._tar.addfile(entry)

    def tree(self, path, source):
        """A folder of this machine with everything in it."""
        for name in sorted(os.listdir(source)):
            inner = pathlib.Path(source) / name
            if inner.is_symlink():
                self.link(f"{path}/{name}", os.readlink(inner))
            elif inner.is_dir():
                self.folder(f"{path}/{name}")
                self.tree(f"{path}/{name}", inner)
            else:
                self.file(f"{path}/{name}", inner)

    def busybox(self):
        self.file("/bin/busybox", "/bin/busybox")
        applets = subprocess.run(["/bin/busybox", "--list"], check=True, capture_output=True,
                                 text=True).stdout.split()
        for name in applets:
            if name != "busybox":
                self.link(f"/bin/{name}", "busybox")

    def _add(self, path, content, mode):
        self.folder(os.path.dirname(path))
        entry = tarfile.TarInfo(path.strip("/"))
        entry.size, entry.mode = len(content), mode
        self._tar.addfile(entry, io.BytesIO(content))

    def finish(self):
        self._tar.close()
        return self._bytes.getvalue()


def write(archive, name, layer, config):
    """`config` is the image's: Entrypoint, Env, ... A name that ends with a colon gets a tag by the
    contents. Returns the name."""
    content = layer.finish()
    if name.endswith(":"):
        name += hashlib.sha256(content).hexdigest()[:12]
    packed = gzip.compress(content, compresslevel=1, mtime=0)
    blobs = {}

    def blob(data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    layers = [blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip")]
    image = blob(json.dumps({
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
    }).encode(), "application/vnd.oci.image.config.v1+json")
    manifest = blob(json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": image, "layers": layers}).encode(), "application/vnd.oci.image.manifest.v1+json")
    manifest["annotations"] = {"io.containerd.image.name": name,
                               "org.opencontainers.image.ref.name": name.rpartition(":")[2]}

    def path(descriptor):
        return "blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")

    files = {"oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
             "index.json": json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode(),
             "manifest.json": json.dumps([{"Config": path(image), "RepoTags": [name],
                                           "Layers": [path(one) for one in layers]}]).encode()}
    files.update((f"blobs/sha256/{digest}", data) for digest, data in blobs.items())
    new = pathlib.Path(str(archive) + ".new")
    with tarfile.open(new, "w") as tar:
        for file, data in files.items():
            entry = tarfile.TarInfo(file)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    new.rename(archive)
    return name
