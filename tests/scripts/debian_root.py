"""A fresh Debian 12, as mmdebstrap makes it, in a directory: to install packages in and look at what
becomes of it. Made once for a list of packages and kept as an archive in the cache directory."""
import hashlib
import os
import pathlib
import shutil
import subprocess

import harness

SUITE = "bookworm"
# Mounted in a namespace of the command's own, so that nothing is left mounted.
ENTER = ('cd "$1" && shift && mount --rbind /proc proc && mount --rbind /sys sys && '
         'mount --rbind /dev dev && exec chroot . "$@"')


def cache_directory():
    """That of scripts/lib.sh."""
    caches = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    return pathlib.Path(os.environ.get("BARGE_CACHE_DIR", pathlib.Path(caches) / "barge"))


def skip_unless_possible():
    if os.geteuid() != 0:
        harness.skip("only root can make a Debian root directory")
    if shutil.which("mmdebstrap") is None:
        harness.skip("there is no mmdebstrap; scripts/setup --tests installs it")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        harness.skip("this process may not make a mount namespace")


def archive_of(packages):
    """A tar of a root with these packages and what they need; skips where Debian is out of reach."""
    name = hashlib.sha256(" ".join([SUITE, *sorted(packages)]).encode()).hexdigest()[:16]
    archive = cache_directory() / f"root-{SUITE}-{name}.tar"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        made = archive.with_suffix(f".{os.getpid()}.tar")
        result = subprocess.run(
            ["mmdebstrap", "--mode=root", "--variant=essential", "--quiet",
             "--dpkgopt=force-unsafe-io",
             f"--include={','.join(packages)}", SUITE, made], capture_output=True, text=True)
        if result.returncode != 0:
            made.unlink(missing_ok=True)
            print(result.stderr[-3000:])
            harness.skip("mmdebstrap could make no Debian: "
                         f"{(result.stderr.strip() or 'no word of why').splitlines()[-1]}")
        made.rename(archive)
    return archive


class Root:
    def __init__(self, directory, packages):
        self.path = pathlib.Path(directory)
        self.path.mkdir()
        archive = archive_of(packages)
        subprocess.run(["tar", "-C", self.path, "--numeric-owner", "-xf", archive], check=True)

    def command(self, *words):
        return ["unshare", "--mount", "sh", "-c", ENTER, "sh", str(self.path), *map(str, words)]

    def run(self, *words, status=0, env=None):
        """What the command prints. Fails the test if it ends with another status."""
        result = subprocess.run(self.command(*words), text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, env=env or environment())
        if result.returncode != status:
            harness.fail(f"in the root: {' '.join(map(str, words))}: exit status "
                         f"{result.returncode}:\n{result.stdout[-3000:]}")
        return result.stdout

    def has(self, path):
        return os.path.lexists(self.path / path.lstrip("/"))


def environment(**more):
    """Nothing of this machine's but what is needed."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive", **more}
