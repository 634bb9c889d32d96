#!/usr/bin/env python3
"""Opens a parcel (packaging/parcel.py) on a machine without a network, and runs `make gpu-check` there.

    python3 open_parcel.py [--to FOLDER] [--report FOLDER] [OPTIONS OF THE CHECK]

Lies beside the parts and manifest.json. Checks the parts by their SHA-256, unpacks them, makes an environment from the wheels and
runs the check, whose report is two files of less than 1 MB. Start it with the Python that has PyTorch, so that NVIDIA's libraries
are found beside it; else set LD_LIBRARY_PATH. Needs nothing but Python, and tells an older one so.
"""

import argparse
import contextlib
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import site
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/cuda/lib64", "/usr/lib/wsl/lib")
"""Folders of drivers and toolkits that the loader may not search."""


PROBE = """
import mlx.core as mx
device, work = mx.default_device(), lambda values: values * 2 + 1
# On a GPU, compiling needs the headers of CUDA as well.
mx.eval((mx.compile(work) if device.type == mx.gpu else work)(mx.ones(3)))
print("MLX computes on", device)
"""


class Failed(Exception):
    """An error with a message for the user: what is wrong, and what to do."""


class Joined:
    """A readable file that joins the parts."""

    def __init__(self, paths):
        self._paths, self._file = list(paths), None

    def read(self, size):
        """Returns at most `size` bytes; none at the end."""
        while self._file or self._paths:
            if self._file is None:
                self._file = open(self._paths.pop(0), "rb")  # noqa: SIM115  stays open between calls
            data = self._file.read(size)
            if data:
                return data
            self._file.close()
            self._file = None
        return b""

    def close(self):
        """Closes the part that is being read."""
        if self._file is not None:
            self._file.close()


def read_manifest(folder):
    """Returns the content of manifest.json. Raises Failed if it is missing or damaged."""
    path = os.path.join(folder, "manifest.json")
    try:
        with open(path, encoding="utf-8") as file:
            manifest = json.load(file)
        if manifest["format"] != "draftlight.parcel/1":
            raise KeyError("format")
        return manifest
    except OSError:
        raise Failed("manifest.json is missing. It belongs beside this script, with all parts.") from None
    except (ValueError, KeyError, TypeError):
        raise Failed("manifest.json is damaged. Send it again.") from None


def require_python(wanted):
    """Raises Failed if the wheels are for another version of Python or another kind of machine."""
    running = "{}.{}".format(*sys.version_info[:2])
    if running != wanted:
        other = shutil.which("python" + wanted)
        remedy = f"Start it with: {other} open_parcel.py" if other else f"Install Python {wanted} and start it with that."
        raise Failed(f"The wheels are for Python {wanted}, and this is Python {running}. {remedy}")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        difference = f"{platform.system()} {platform.machine()}"
        raise Failed(f"The wheels are for Linux on x86-64, and this is {difference}.")


def check_parts(folder, parts):
    """Returns the paths of the parts. Raises Failed if some are missing or damaged, naming each."""
    wrong = []
    for part in parts:
        path = os.path.join(folder, part["name"])
        if not os.path.isfile(path):
            wrong.append("{} is missing".format(part["name"]))
        elif os.path.getsize(path) != part["size"] or _sha256(path) != part["sha256"]:
            wrong.append("{} is damaged".format(part["name"]))
    if wrong:
        raise Failed("{}. Send these again; the others are right.".format(", ".join(wrong)))
    return [os.path.join(folder, part["name"]) for part in parts]


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def unpack(paths, folder):
    """Unpacks the archive in the parts. Removes the files of an earlier parcel first."""
    for name in ("wheels", "code", "venv"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    with contextlib.closing(Joined(paths)) as joined, tarfile.open(fileobj=joined, mode="r|") as archive:
        # Python before 3.11.4, which only tests use, lacks the filter.
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def make_environment(folder):
    """Makes an environment from the wheels alone; returns its Python. Runs pip from its wheel, as not every venv has pip."""
    environment = os.path.join(folder, "venv")
    python = os.path.join(environment, "bin", "python")
    wheels = sorted(glob.glob(os.path.join(folder, "wheels", "*.whl")))
    (pip,) = (wheel for wheel in wheels if os.path.basename(wheel).startswith("pip-"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", environment], check=True)
    command = [python, pip + "/pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    if subprocess.run(command + wheels).returncode:
        raise Failed("pip could not install the wheels; its message is above.")
    return python


def environment_of_libraries(folder):
    """Returns the environment variables with which MLX finds NVIDIA's libraries and headers.

    Links the libraries of PyTorch's packages to the folder where MLX looks for them, next to its own package.
    """
    variables = dict(os.environ)
    (packages,) = glob.glob(os.path.join(folder, "venv", "lib", "python3*", "site-packages"))
    link = os.path.join(packages, "nvidia")
    library_folders = [os.path.join(folder_, "nvidia") for folder_ in [*site.getsitepackages(), *sys.path] if folder_]
    folders = next((folder_ for folder_ in library_folders if glob.glob(os.path.join(folder_, "*", "lib", "*.so*"))), None)
    if folders and not os.path.lexists(link):
        os.symlink(folders, link)
    existing = [folder_ for folder_ in variables.get("LD_LIBRARY_PATH", "").split(":") if folder_]
    additions = [folder_ for folder_ in (*LIBRARY_FOLDERS, *sorted(glob.glob(link + "/*/lib"))) if os.path.isdir(folder_)]
    variables["LD_LIBRARY_PATH"] = ":".join(existing + additions)
    return variables


def require_mlx(python, variables):
    """Raises Failed if MLX cannot be imported or compute. The message names a missing library and its source."""
    command = [python, "-c", PROBE]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        print(done.stdout.strip(), flush=True)
        return
    missing = re.search(r"(lib[\w+-]+\.so[.\d]*): cannot open shared object", done.stdout)
    if missing is None:
        raise Failed("MLX cannot compute here. It said:\n" + done.stdout.strip()[-2000:])
    name = missing.group(1)
    if name.startswith("libcuda."):
        raise Failed(
            f"{name} is missing: there is no NVIDIA driver here, or the loader does not find it. Set LD_LIBRARY_PATH to the "
            f"folder that has it (find / -name '{name}*')."
        )
    raise Failed(
        f"{name} is missing. NVIDIA's packages for CUDA 13, which PyTorch brings, have it (libnccl: nvidia-nccl-cu13). Start "
        f"this script with the Python that has PyTorch, or set LD_LIBRARY_PATH to its folder (find / -name '{name}*')."
    )


def main(arguments=None):
    """Opens the parcel and runs the check; returns its exit status, or 2 if it could not be run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--to", default=os.path.join(HERE, "opened"), metavar="FOLDER", help="folder to unpack into (default: %(default)s)"
    )
    parser.add_argument(
        "--report", default=os.path.join(HERE, "report"), metavar="FOLDER", help="folder for the report (default: %(default)s)"
    )
    chosen, options = parser.parse_known_args(arguments)
    folder, report = os.path.abspath(chosen.to), os.path.abspath(chosen.report)
    try:
        manifest = read_manifest(HERE)
        require_python(manifest["python"])
        paths = check_parts(HERE, manifest["parts"])
        print(f"{len(paths)} parts are right. Unpacking.", flush=True)
        unpack(paths, folder)
        print("Installing.", flush=True)
        python = make_environment(folder)
        variables = environment_of_libraries(folder)
        require_mlx(python, variables)
    except (Failed, OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
        print(f"open_parcel.py: {error}", file=sys.stderr)
        return 2
    variables.update(DRAFTLIGHT_HOME=os.path.join(folder, "home"), PYTHONNOUSERSITE="1")
    variables.pop("PYTHONPATH", None)
    command = [python, "-m", "tests.gpu_check", "--output", report, *options]
    return subprocess.run(command, cwd=os.path.join(folder, "code"), env=variables).returncode


if __name__ == "__main__":
    sys.exit(main())
