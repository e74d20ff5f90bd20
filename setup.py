"""Only what pyproject.toml cannot say: the C extension is made by cffi, and every folder of modules is a package."""

import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

from setuptools import setup
from setuptools.command.build_ext import build_ext

#: Folders at the root that are packages of ``twinfer``.
FOLDERS = ("aot", "bench", "converter", "kernels_c", "runtime")

#: Packages that only a checkout has: what remakes figures and looks for faults. No command of ``twinfer`` needs them.
FOR_DEVELOPERS = ("twinfer.bench.fuzz", "twinfer.bench.lab", "twinfer.bench.lab.suites")

here = Path(__file__).parent

#: Where compiled files are kept from one build to the next.
OBJECTS = here / "build" / "kernels" / "objects"


def packages(folder: str) -> list[str]:
    """Every package in a folder at the root; ``**`` follows none of the symlinks in ``twinfer``."""
    return [".".join(path.parent.relative_to(here).parts) for path in sorted(here.glob(f"{folder}/**/__init__.py"))]


class Build(build_ext):
    """Compiles the files of the extension side by side, and of these only what has changed since the last time.

    ``pip install -e`` and TWINFER_LEVELS=own build the kernels for the instruction-set level of this CPU alone; all
    else builds all levels. Windows needs MinGW's gcc: Microsoft's compiler knows no GNU C.
    """

    def finalize_options(self) -> None:
        if os.name == "nt" and self.compiler is None:
            self.compiler = "mingw32"
        super().finalize_options()

    def build_extensions(self) -> None:
        (extension,) = self.extensions
        if self.editable_mode or os.environ.get("TWINFER_LEVELS") == "own":
            extension.sources = list(filter(self._for_this_cpu(), extension.sources))
        self.force = True  # linking takes a second, and last time there may have been other levels
        one = self.compiler.compile

        def compile(source: str, how: dict[str, Any]) -> list[str]:
            how = {**how, "output_dir": os.path.relpath(OBJECTS)}
            (made,) = map(Path, self.compiler.object_filenames([source], output_dir=how["output_dir"]))
            command = repr([self.compiler.compiler_so, sorted(how.items())])
            about, headers = made.with_suffix(".made"), made.with_suffix(".d")
            if not (made.exists() and about.exists() and about.read_text() == made_from(command, headers)):
                about.unlink(missing_ok=True)
                one([source], **{**how, "extra_postargs": [*how["extra_postargs"], "-MMD", "-MF", str(headers)]})
                about.write_text(made_from(command, headers))
            return [str(made)]

        def compile_all(sources: list[str], **how: Any) -> list[str]:
            how.pop("depends", None)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                return [path for paths in pool.map(lambda source: compile(source, how), sources) for path in paths]

        self.compiler.compile = compile_all
        super().build_extensions()

    def _for_this_cpu(self) -> Callable[[str], bool]:
        """Whether a file is compiled for the highest level that this CPU runs, or for none."""
        with TemporaryDirectory() as folder:
            source, program = Path(folder, "level.c"), Path(folder, "level")
            says = 'printf("%s %s", tw_levels[tw_level()], tw_set(tw_level()))'
            source.write_text(f'#include <stdio.h>\n#include "run/cpu.h"\nint main(void) {{ return {says} < 0; }}\n')
            subprocess.run([*self.compiler.compiler, "-I", here / "kernels_c", source, "-o", program], check=True)
            level, *sets = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
        own = (f"level_{level}_", *(f"set_{name}" for name in sets))
        return lambda path: Path(path).name.startswith(own) or not Path(path).name.startswith(("level_", "set_"))


def made_from(command: str, headers: Path) -> str:
    """A command and the check sums of all files that it reads. ``headers`` names these, as ``gcc -MMD`` writes them."""
    read = headers.read_text().partition(":")[2].replace("\\\n", " ").split() if headers.exists() else []
    return repr([command, {path: check_sum(path) for path in read}])


@cache
def check_sum(path: str) -> int:
    """Of a file's content; a file that is only touched, as by git, is the same. -1: it is not there."""
    return crc32(Path(path).read_bytes()) if Path(path).exists() else -1


every = [*packages("twinfer"), *(f"twinfer.{name}" for folder in FOLDERS for name in packages(folder))]

setup(
    cmdclass={"build_ext": Build},
    cffi_modules=["kernels_c/ffi_build.py:make"],
    package_dir={"twinfer": "twinfer", **{f"twinfer.{folder}": folder for folder in FOLDERS}},
    packages=[name for name in every if name not in FOR_DEVELOPERS],
)
