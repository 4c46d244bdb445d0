"""The host runtime: what the machine would do wrong or for ever is told, with the CPE's place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from host_battery import needs_gcc

import swcaffe.codegen
from swcaffe.codegen.files import sources
from swcaffe.machine.toy import TOY

RUNTIME = Path(swcaffe.codegen.__file__).parent / "host_runtime"
STRICT = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror")

FRAME = """\
#include <athread.h>
#include <slave.h>
#include <stdlib.h>

static float memory[64] __attribute__((aligned(128)));

static void task(void *argument) {
    const int id = athread_get_id(-1);
    float *const ldm = ldm_malloc(512);
    volatile int reply = 0;
    dma_desc get;
    dma_set_op(&get, DMA_GET);
    dma_set_mode(&get, PE_MODE);
    dma_set_size(&get, 64);
    dma_set_bsize(&get, 0);
    dma_set_stepsize(&get, 0);
    dma_set_reply(&get, &reply);
    doublev4 v = {id, id, id, id};
    (void)argument, (void)ldm, (void)id, (void)v;
    %s
    ldm_free(ldm, 512);
}

int main(void) {
    for (int i = 0; i < 64; i++) memory[i] = (float)i;
    athread_init();
    athread_spawn(task, NULL);
    athread_join();
    athread_halt();
    return 0;
}
"""

FAULTS = {
    "receives what nobody sends": (
        "if (id == 2) REG_GETC(v);",
        4,
        "CPE (1, 0) waits to receive on its column bus\n",
    ),
    "sends more than a queue holds": (
        "for (int i = 0; id == 0 && i < 5; i++) REG_PUTR(v, 8);",
        4,
        "CPE (0, 0) waits to send on its row bus: the queue of CPE (0, 1) is full\n",
    ),
    "leaves a message": (
        "if (id == 1) REG_PUTC(v, 8);",
        3,
        "CPE (1, 1) never receives 1 messages of its column bus\n",
    ),
    "misses a barrier": (
        "if (id < 3) athread_syn(ARRAY_SCOPE, 0xffff);",
        4,
        "CPE (0, 0) waits for all CPEs at a barrier\n"
        "CPE (0, 1) waits for all CPEs at a barrier\n"
        "CPE (1, 0) waits for all CPEs at a barrier\n",
    ),
    "ends before a copy": (
        "if (id == 3) dma(get, memory, ldm);",
        3,
        "CPE (1, 1) ends before 1 DMA requests are awaited\n",
    ),
    "waits for a copy too many": (
        "if (id == 0) { dma(get, memory, ldm); dma_wait(&reply, 2); }",
        3,
        "CPE (0, 0) waits for 2 replies, 1 requests were issued\n",
    ),
    "asks for more LDM than there is": (
        "if (id == 1) ldm_malloc(1600);",
        3,
        "CPE (0, 1) asks for 2112 B of LDM in all, 2048 B are there\n",
    ),
    "copies past its LDM": (
        "dma_set_size(&get, 256); if (id == 2) dma(get, memory, ldm + 65);",
        3,
        "CPE (1, 0) copies 256 B outside what it has of its LDM\n",
    ),
    "writes past its LDM": (
        "if (id == 2) ldm[2048 / 4] = 1;",
        3,
        "CPE (1, 0) wrote outside its LDM\n",
    ),
}


def run(directory, body, flags=()):
    """Build the runtime around a task, and run it."""
    (directory / "machine.h").write_text(sources({}, TOY)["machine.h"])
    (directory / "task.c").write_text(FRAME % body)
    subprocess.run(
        ["gcc", *STRICT, *flags, "-I.", f"-I{RUNTIME}", "task.c", RUNTIME / "host.c", "-o", "task"],
        cwd=directory,
        check=True,
    )
    return subprocess.run(
        [directory / "task"], capture_output=True, text=True, check=False, timeout=60
    )


@needs_gcc
@pytest.mark.parametrize(("body", "code", "text"), FAULTS.values(), ids=FAULTS)
def test_a_task_that_does_wrong_is_named(tmp_path, body, code, text):
    done = run(tmp_path, body)
    assert (done.returncode, done.stderr) == (code, text)


@needs_gcc
def test_an_address_outside_what_was_allocated_is_caught_by_the_sanitizer(tmp_path):
    done = run(tmp_path, "if (id == 3) ldm[128] = 1;", ["-fsanitize=address"])
    assert done.returncode != 0
    assert "use-after-poison" in done.stderr


@needs_gcc
def test_a_copy_arrives_when_it_is_awaited_and_not_before(tmp_path):
    body = """
    dma(get, memory + 16 * id, ldm);
    if (ldm[0] == ldm[0]) exit(10);  /* undefined: not a number */
    dma_wait(&reply, 1);
    for (int i = 0; i < 16; i++) if (ldm[i] != 16 * id + i) exit(11);
    """
    done = run(tmp_path, body)
    assert done.returncode == 0, done
    assert done.stdout.startswith("dma_get_bytes 256 dma_put_bytes 0 dma_transactions 4 ")


@needs_gcc
def test_strided_blocks_are_apart_in_memory_and_together_in_the_ldm(tmp_path):
    body = """
    dma_set_bsize(&get, 16);
    dma_set_stepsize(&get, 32);
    dma(get, memory + 1, ldm);
    dma_wait(&reply, 1);
    for (int i = 0; i < 16; i++) if (ldm[i] != 1 + 12 * (i / 4) + i % 4) exit(11);
    """
    done = run(tmp_path, body)
    assert done.returncode == 0, done
    # blocks at bytes 4, 52, 100 and 148 each lie within one line of 128 bytes
    assert "dma_get_bytes 256 dma_put_bytes 0 dma_transactions 16 dma_descriptors 4 " in done.stdout


@needs_gcc
def test_messages_arrive_in_order_and_at_all_others_of_a_row(tmp_path):
    body = """
    for (int i = 0; i < 9; i++) {
        v[0] = 10 * id + i;
        if (id % 2 == 0) REG_PUTR(v, 8);
        else REG_GETR(v);
        if (v[0] != 10 * (id / 2 * 2) + i) exit(11);
    }
    """
    done = run(tmp_path, body)
    assert done.returncode == 0, done
    assert "row_messages 18 col_messages 0" in done.stdout


@needs_gcc
def test_a_barrier_orders_what_cpes_do_to_memory(tmp_path):
    body = """
    for (int round = 0; round < 3; round++) {
        memory[id] = (float)(round + id);
        athread_syn(ARRAY_SCOPE, 0xffff);
        for (int i = 0; i < 4; i++) if (memory[i] != round + i) exit(11);
        athread_syn(ARRAY_SCOPE, 0xffff);
    }
    """
    assert run(tmp_path, body).returncode == 0
