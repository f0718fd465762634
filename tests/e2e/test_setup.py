"""tools/setup on machines that lack something, simulated by stubs for the real commands."""

import os
import shutil
import subprocess

import pytest
from places import REPOSITORY

TOOLS = REPOSITORY / "tools"

# Every stub logs its call to calls.txt, so that a test can tell what ran and what did not.
STUBS = {
    "dpkg-query": 'cat "$HERE/installed.txt" 2>/dev/null; exit 1',
    "apt-get": 'echo "apt-get $*" >>"$HERE/calls.txt"; [[ ! -e "$HERE/apt-$1-fails" ]]',
    "id": 'cat "$HERE/uid.txt"',
    # Stands in for the interpreter: its version, and a venv whose python stands in for pip.
    "python3": """
echo "python3 $*" >>"$HERE/calls.txt"
case "$*" in
  *'(3, 11)'*) exit "$(cat "$HERE/too_old.txt")";;
  *version_info*) echo 3.11.7;;
  '-m venv'*) mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
  '-m pip'*) [[ ! -e "$HERE/pip-fails" ]];;
esac""",
}


class Machine:
    def __init__(self, folder):
        self.folder = folder
        (folder / "tools").mkdir()
        shutil.copy(TOOLS / "setup", folder / "tools" / "setup")
        self.write("tools/debian-packages.txt", "# build\ng++\n\ncmake  # a remark\n")
        self.write("tools/requirements.txt", "# LibTorch\ntorch==2.13.0\n")
        self.write("uid.txt", "0\n")
        self.write("too_old.txt", "0\n")
        self.installed("g++", "cmake")
        for name, body in STUBS.items():
            self.write(f"stubs/{name}", f"#!/bin/bash\n{body}\n").chmod(0o755)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def installed(self, *packages):
        self.write("installed.txt", "".join(f"ii {name}:amd64\n" for name in packages))

    def without(self, command):
        """Only the basic tools that the script needs, and all stubs except this one."""
        (self.folder / "stubs" / command).unlink()
        for tool in "bash dirname sed xargs sort comm cat sha256sum cut echo mkdir cp".split():
            os.symlink(shutil.which(tool), self.folder / "stubs" / tool)

    def run(self, *arguments, only_stubs=False, **environment):
        (self.folder / "calls.txt").write_text("")
        stubs = str(self.folder / "stubs")
        path = stubs if only_stubs else stubs + ":" + os.environ["PATH"]
        plain = {key: value for key, value in os.environ.items() if key != "LEEWAY_TORCH"}
        return subprocess.run(
            [shutil.which("bash"), self.folder / "tools" / "setup", *arguments],
            env={**plain, "PATH": path, "HERE": str(self.folder), **environment},
            capture_output=True,
            text=True,
        )

    def calls(self, of):
        lines = (self.folder / "calls.txt").read_text().splitlines()
        return [line for line in lines if line.startswith(of)]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_second_time_is_silent(machine):
    first = machine.run()
    assert first.returncode == 0, first.stderr
    assert "making .venv" in first.stdout and "torch==2.13.0" in first.stdout
    second = machine.run()
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert not machine.calls("apt-get")


def test_changed_requirements_install_again_into_the_same_environment(machine):
    machine.run()
    machine.write("tools/requirements.txt", "torch==2.14.0\n")
    done = machine.run()
    assert done.returncode == 0
    assert "torch==2.14.0" in done.stdout and "making .venv" not in done.stdout


def test_only_missing_packages_are_installed(machine):
    machine.installed("g++")
    done = machine.run()
    assert done.returncode == 0, done.stderr
    calls = machine.calls("apt-get")
    assert calls[0].startswith("apt-get update")
    assert calls[1].startswith("apt-get install") and calls[1].endswith(" cmake")
    assert len(calls) == 2


def test_fuzzing_needs_the_packages_of_the_tests_and_its_own(machine):
    for kind in "tests", "fuzz":
        machine.write(f"tools/debian-packages-{kind}.txt", f"for-{kind}\n")
    machine.write("tools/requirements-tests.txt", "pytest\n")
    done = machine.run("fuzz")
    assert done.returncode == 0, done.stderr
    assert machine.calls("apt-get")[1].endswith(" for-fuzz for-tests")
    assert "pytest" in done.stdout


def test_a_failing_update_is_tried_twice_and_then_reported(machine):
    machine.installed("g++")
    machine.write("apt-update-fails", "")
    done = machine.run()
    assert done.returncode == 1
    assert "apt-get update failed: check the network" in done.stderr
    assert len(machine.calls("apt-get")) == 2


def test_without_root_it_names_packages_and_command(machine):
    machine.installed()
    machine.write("uid.txt", "1000\n")
    done = machine.run()
    assert done.returncode == 1
    assert "sudo apt-get install cmake g++" in done.stderr
    assert not machine.calls("apt-get")


def test_without_apt_it_names_the_packages(machine):
    machine.installed("cmake")
    machine.without("apt-get")
    done = machine.run(only_stubs=True)
    assert done.returncode == 1
    assert "there is no apt-get here: g++" in done.stderr


def test_without_python_it_says_so(machine):
    machine.without("python3")
    done = machine.run(only_stubs=True)
    assert done.returncode == 1
    assert done.stderr == "setup: python3 not found: install Python 3.11 or newer\n"


def test_an_old_python_is_refused(machine):
    machine.write("too_old.txt", "1\n")
    done = machine.run()
    assert done.returncode == 1
    assert "install Python 3.11 or newer" in done.stderr


def test_a_failing_pip_starts_over_next_time(machine):
    machine.write("pip-fails", "")
    done = machine.run()
    assert done.returncode == 1
    assert "pip failed: check the network" in done.stderr
    (machine.folder / "pip-fails").unlink()
    assert "setup: done" in machine.run().stdout


def test_another_libtorch_skips_everything(machine):
    machine.installed()
    done = machine.run(LEEWAY_TORCH="/somewhere")
    assert done.returncode == 0
    assert "skipping Debian packages and .venv" in done.stdout
    assert not machine.calls("")
