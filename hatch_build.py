"""Put compiled kernels into a wheel, where `make wheel` has made some: the wheel is then one of this platform."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg,misc]  # hatchling is installed for builds alone
    """Ships the folder ``build/kernels`` as ``tocsin/_shipped``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the files to those of the wheel; leave locks, and code that only other kernels are compiled with."""
        folder = Path(self.root) / "build" / "kernels"
        files = [file for file in folder.rglob("*.nb[ic]") if ".linked" not in file.name]
        if files and version == "standard":
            build_data |= {"pure_python": False, "infer_tag": True}
            shipped = {str(file): f"tocsin/_shipped/{file.relative_to(folder)}" for file in files}
            build_data["force_include"].update(shipped)
