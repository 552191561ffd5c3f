"""Compiles the data plane's programs into the wheel, so that nodes need no compiler. The rest is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent / "src"))

from alcove.dataplane.build import compile_object, object_name, sources_folder
from alcove.dataplane.errors import CompilerMissing


class BuildWithObject(build_py):
    """Without a compiler the package is whole all the same: nodes then compile the programs themselves."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        folder = sources_folder()
        try:
            compile_object(folder, Path(self.build_lib, "alcove", "bpf", object_name(folder)))
        except CompilerMissing as error:
            self.warn(f"the wheel will have no compiled eBPF object: {error}")


setup(cmdclass={"build_py": BuildWithObject})
