"""The three files of a program: its parameters, what a CPE runs, and how the MPE starts it."""

from __future__ import annotations

from swcaffe.codegen.c_text import body, replies, used, written
from swcaffe.codegen.expressions import C_TYPES, identifier
from swcaffe.ir.buffer import Buffer
from swcaffe.ir.expand import expand
from swcaffe.ir.layout import MEM_ALIGNMENT, layout
from swcaffe.ir.stmt import Program

__all__ = ["header", "mpe_source", "slave_source"]


def _pointer(buffer: Buffer, outputs: frozenset[Buffer], *, fixed: bool = False) -> str:
    const = "" if buffer in outputs else "const "
    star = "*const " if fixed else "*"
    return f"{const}{C_TYPES[buffer.dtype]} {star}{identifier(buffer.name)}"


def _size(buffer: Buffer) -> str:
    return " x ".join(str(n) for n in buffer.shape) or "1"


def header(name: str, program: Program) -> str:
    """NAME.h: the parameters as a struct, and the function that runs the program."""
    outputs = written(program)
    fields = "".join(f"    {_pointer(p, outputs)}; /* {_size(p)} */\n" for p in program.params)
    names = ", ".join(_pointer(p, outputs) for p in program.params)
    rows, cols = program.mesh
    return f"""\
/* {program.name} on {rows} x {cols} CPEs. */
#ifndef {name.upper()}_H
#define {name.upper()}_H

typedef struct {{
{fields}    float *scratch;
}} {name}_args;

/* Run on one core group; 0, or an error number if there is no memory for scratch. */
int run_{name}({names});

#endif
"""


def slave_source(name: str, program: Program) -> str:
    """NAME_slave.c: what every CPE runs."""
    program = program if program.level == "cpe" else expand(program)
    outputs, touched = written(program), used(program)
    peak = layout(program).ldm_peak_bytes
    head = [
        f"const {name}_args args = *(const {name}_args *)argument;",
        "const long ROW = athread_get_id(-1) / SW_COLS, COL = athread_get_id(-1) % SW_COLS;",
        f"char *const ldm = ldm_malloc({peak});",
        "(void)ROW, (void)COL;",
    ]
    head += [
        f"{_pointer(p, outputs, fixed=True)} = args.{p.name};"
        for p in program.params
        if p in touched
    ]
    head += [f"sw_reply {word}_reply[{n}] = {{{{0, 0}}}};" for word, n in replies(program).items()]
    lines = [*head, *body(program), f"ldm_free(ldm, {peak});"]
    text = "".join(f"    {line}\n" for line in lines)
    return f"""\
#include <math.h>
#include <slave.h>

#include "machine.h"
#include "sw_cpe.h"

#include "{name}.h"

void {name}_cpe(void *argument);

void {name}_cpe(void *argument) {{
{text}}}
"""


def mpe_source(name: str, program: Program) -> str:
    """NAME_master.c: scratch, spawn, join."""
    places = layout(program)
    count = places.shared_count + places.private_count
    outputs = written(program)
    names = ", ".join(_pointer(p, outputs) for p in program.params)
    values = "".join(f"{identifier(p.name)}, " for p in program.params)
    scratch, free = "", ""
    if count:
        scratch = f"""\
    void *scratch = NULL;
    const int error = posix_memalign(&scratch, {4 * MEM_ALIGNMENT}, {4 * count});
    if (error) return error;
"""
        free = "    free(scratch);\n"
    return f"""\
#include <athread.h>
#include <stdlib.h>

#include "{name}.h"

extern void SLAVE_FUN({name}_cpe)(void *);

int run_{name}({names}) {{
{scratch}    {name}_args args = {{{values}{"scratch" if count else "NULL"}}};
    athread_spawn({name}_cpe, &args);
    athread_join();
{free}    return 0;
}}
"""
