"""`tocsin warm`: compile ahead of time, so that no match waits for the compiler."""

import time
from typing import Annotated

import typer

from tocsin.cli.console import AsJson, errors, print_json


def warm(
    family: Annotated[list[str] | None, typer.Option(help="A family of predicates; may be given again.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compile what matching needs, in parallel processes; what is compiled already is left alone.

    Families: ranges, words, patterns, regexps, places, xpath, history, arrays, attributes; all of them by default.
    """
    from tocsin import _kernel_cache
    from tocsin.compile_ahead import warm as compile_families

    console = errors()
    start = time.perf_counter()

    def show(name: str, kernels: int, seconds: float) -> None:
        console.print(f"{name}: {kernels} kernels compiled, {seconds:.1f} s", highlight=False)

    with console.status("compiling"):
        kernels = compile_families(family or None, show)
    seconds = time.perf_counter() - start
    if as_json:
        print_json({"kernels": kernels, "seconds": round(seconds, 3), "kept_in": str(_kernel_cache.root())})
        return
    console.print(
        f"{kernels} kernels compiled in {seconds:.1f} s, kept in {_kernel_cache.root()}",
        highlight=False,
        soft_wrap=True,
    )
