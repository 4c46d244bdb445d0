"""A directory that builds: generated programs, the primitives they call, and two makefiles in one.

`make` builds for this host with gcc and the host runtime, `make TARGET=sw5cc` for the machine with
its own compiler and athread library; the programs are the same files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from swcaffe.codegen.athread import header, mpe_source, slave_source
from swcaffe.codegen.c_text import written
from swcaffe.codegen.expressions import identifier
from swcaffe.errors import DataError, ProgramError
from swcaffe.files import write_atomically
from swcaffe.ir.stmt import Program
from swcaffe.machine.spec import Machine

__all__ = ["sources", "write_sources"]

HERE = Path(__file__).parent
COPIED = ("cpe", "mpe", "host_runtime")
"""Folders of C that go with every program; the host runtime keeps a folder of its own."""
LANES = 4
"""Numbers in the vector type of the primitives."""

MAKEFILE = """\
# make               for this host: gcc and the runtime in host_runtime
# make TARGET=sw5cc  for the machine
TARGET ?= host
NAMES = {names}
MASTER = $(NAMES:%=%_master.o) programs.o main.o
SLAVE = $(NAMES:%=%_slave.o) {primitives}

ifeq ($(TARGET),sw5cc)
MASTER_CC = sw5cc -host -std=gnu99 -O2
SLAVE_CC = sw5cc -slave -msimd -std=gnu99 -O2
LINK = sw5cc -hybrid
else
CC = gcc
CFLAGS = -O2 -Wall -Wextra -Werror
MASTER_CC = $(CC) -std=gnu11 $(CFLAGS) -I. -Ihost_runtime
SLAVE_CC = $(MASTER_CC)
LINK = $(CC) $(CFLAGS)
RUNTIME = host_runtime/host.o
endif

run: $(MASTER) $(SLAVE) $(RUNTIME)
\t$(LINK) $^ -lm -o $@

$(MASTER) $(RUNTIME): %.o: %.c
\t$(MASTER_CC) -c $< -o $@

$(SLAVE): %.o: %.c
\t$(SLAVE_CC) -c $< -o $@

clean:
\trm -f run *.o host_runtime/*.o
"""


def sources(programs: Mapping[str, Program], machine: Machine) -> dict[str, str]:
    """Path -> text of every file, for verified programs by name, which must be one in C.

    Raises ProgramError for a name that is none, a program for another mesh, or an intrinsic without
    C text.
    """
    if machine.kernel.lanes != LANES:
        raise ProgramError(f"{machine.name} has {machine.kernel.lanes} lanes, doublev4 has {LANES}")
    files = {"machine.h": _machine(machine), "programs.c": _programs(programs)}
    primitives = " ".join(f"{path.stem}.o" for path in sorted((HERE / "cpe").glob("*.c")))
    files["Makefile"] = MAKEFILE.format(names=" ".join(programs), primitives=primitives)
    for folder in COPIED:
        for path in sorted((HERE / folder).glob("*.[ch]")):
            place = f"{folder}/{path.name}" if folder == "host_runtime" else path.name
            files[place] = path.read_text(encoding="utf-8")
    for name, program in programs.items():
        if program.mesh != (machine.mesh.rows, machine.mesh.cols):
            raise ProgramError(f"{name} is for a mesh of {program.mesh}, not for {machine.name}")
        files[f"{name}.h"] = header(name, program)
        files[f"{name}_master.c"] = mpe_source(name, program)
        files[f"{name}_slave.c"] = slave_source(name, program)
    return files


def write_sources(directory: Path, programs: Mapping[str, Program], machine: Machine) -> None:
    """Write `sources` into a directory, which is made if need be. Raises DataError."""
    files = sources(programs, machine)
    try:
        (directory / "host_runtime").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make {directory}: {error.strerror}", fix="give a folder that may be written to"
        ) from error
    for name, text in files.items():
        with write_atomically(directory / name) as part:
            part.write_text(text, encoding="utf-8")


def _machine(machine: Machine) -> str:
    sizes = {
        "ROWS": machine.mesh.rows,
        "COLS": machine.mesh.cols,
        "LDM_BYTES": machine.ldm.usable_bytes,
        "BUS_DEPTH": machine.register_bus.depth,
        "TRANSACTION_BYTES": machine.dma.transaction_bytes,
        "TILE_M": machine.kernel.tile_m,
        "TILE_N": machine.kernel.tile_n,
        "LANES": machine.kernel.lanes,
    }
    lines = "".join(f"#define SW_{name} {value}\n" for name, value in sizes.items())
    return f"/* {machine.name}: the sizes that the programs were made for. */\n{lines}"


def _programs(programs: Mapping[str, Program]) -> str:
    """programs.c: the table that main looks names up in."""
    includes, parts, rows = "", "", ""
    for name, program in programs.items():
        identifier(name)
        outputs = written(program)
        params = program.params
        arrays = ", ".join(f"arrays[{i}]" for i in range(len(params)))
        counts = ", ".join(str(p.count) for p in params)
        flags = "".join("w" if p in outputs else "-" for p in params)
        includes += f'#include "{name}.h"\n'
        parts += f"""
static const size_t {name}_counts[] = {{{counts}}};

static int call_{name}(void *const *arrays) {{
    return run_{name}({arrays});
}}
"""
        rows += f'    {{"{name}", call_{name}, {len(params)}, {name}_counts, "{flags}"}},\n'
    return f"""\
#include "programs.h"

{includes}{parts}
const sw_program sw_programs[] = {{
{rows}}};
const int sw_program_count = {len(programs)};
"""
