"""Every rule of `verify` accepts what is right, and rejects a program that breaks just this rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swcaffe.errors import LdmError, ProgramError
from swcaffe.ir.buffer import Along, Region
from swcaffe.ir.builder import Builder, box
from swcaffe.ir.expr import Affine, mod, var
from swcaffe.ir.intrinsics.elementwise import Add
from swcaffe.ir.intrinsics.fill import Zero, ZeroOutside
from swcaffe.ir.intrinsics.mesh_gemm import MeshGemm
from swcaffe.ir.stmt import Alloc, Bus, Copy, Direction, For, If, Reply, Send, Seq, Wait
from swcaffe.ir.verify import RULES, verify
from swcaffe.ir.visitor import Rewriter
from swcaffe.machine.toy import TOY
from swcaffe.operators.gemm import Gemm
from swcaffe.schedule.templates.gemm import GemmTemplate

GRID = (Along.ROW, Along.COL)
R = Reply("r")


class Writer:
    """A builder for two buffers of 8 x 8 in memory and tiles of 4 x 4."""

    def __init__(self):
        self.b = Builder("test", (2, 2))
        self.x = self.b.param("x", (8, 8))
        self.y = self.b.param("y", (8, 8))

    def tile(self, shape=(4, 4), partition=GRID, **options):
        return self.b.tile("t", shape, partition, **options)

    def check(self, machine=TOY):
        verify(self.b.build(), machine)

    def rejected(self, text, kind=ProgramError):
        with pytest.raises(kind) as caught:
            self.check()
        assert text in str(caught.value), str(caught.value)


def copy_through(w, reply=R):
    tile = w.tile()
    w.b.get(box(tile), box(w.x, 4, 4), reply)
    w.b.wait(reply)
    w.b.put(box(tile), box(w.y, 4, 4), reply)
    w.b.wait(reply)
    return tile


def test_a_copy_through_the_ldm_is_accepted():
    w = Writer()
    copy_through(w)
    w.check()


def test_every_rule_has_a_docstring_that_states_it():
    assert all(rule.__doc__ for rule in RULES)


def test_program_for_another_mesh():
    program = Builder("test", (8, 8)).build()
    with pytest.raises(ProgramError, match=r"for a mesh of \(8, 8\), toy has \(2, 2\)"):
        verify(program, TOY)


def test_messages_at_mesh_level():
    w = Writer()
    tile = w.tile()
    w.b.emit(Send(Bus.ROW, box(tile)))
    w.rejected("send row t[:4, :4] (no loop): belongs to CPE level")


def test_branch_at_mesh_level():
    w = Writer()
    w.b.emit(If(Affine(), Seq(()), Seq(())))
    w.rejected("belongs to CPE level")


def test_loop_that_never_runs():
    w = Writer()
    w.b.emit(For("i", 0, Seq(())))
    w.rejected("for i < 0 (no loop): runs less than once")


def test_loop_variable_taken():
    w = Writer()
    w.b.emit(For("i", 2, Seq((For("i", 2, Seq(())),))))
    w.rejected("variable i is taken by an outer loop")


def test_parallel_loop_inside_a_loop():
    w = Writer()
    w.b.emit(For("i", 2, Seq((For("j", 2, Seq(()), parallel=True),))))
    w.rejected("for j < 2 parallel (i < 2): is parallel inside a loop")


@pytest.mark.parametrize(
    ("shape", "partition", "text"),
    [
        ((4, 4), (Along.ROW,), "2 axes, 1 of them dealt"),
        ((4, 4), (Along.ROW, Along.ROW), "dealt twice: ['row', 'row']"),
        ((4, 4), (Along.MESH, Along.COL), "dealt twice: ['mesh', 'col']"),
        ((4, 5), GRID, "5 elements in 2 blocks"),
        ((6, 4), (Along.MESH, Along.NONE), "6 elements in 4 blocks"),
    ],
)
def test_bad_partition(shape, partition, text):
    w = Writer()
    w.tile(shape, partition)
    w.rejected(text)


def test_region_outside_memory_names_the_loop():
    w = Writer()
    tile = w.tile()
    with w.b.loop("i", 3) as i:
        w.b.get(box(tile), box(w.x, (i * 4, 4), 4), R)
        w.b.wait(R)
    w.rejected("(i < 3): axis 0 of x[4*i:+4, :4] spans 0 to 12 of 0 to 8")


def test_region_of_too_few_axes():
    w = Writer()
    tile = w.tile()
    w.b.get(box(tile), Region(w.x, (Affine(),), (4,)), R, (0, 1))
    w.rejected("has not the 2 axes of x")


def test_slot_that_does_not_exist():
    w = Writer()
    tile = w.tile(slots=2)
    w.b.get(box(tile, slot=Affine(2)), box(w.x, 4, 4), R)
    w.rejected("slot 2 of t, which has 2")


def test_region_inside_a_dealt_axis():
    w = Writer()
    tile = w.tile((4, 4))
    w.b.apply(Zero(), box(tile, (2, 2)))
    w.rejected("starts inside an axis dealt by row")


def test_copy_of_unequal_shapes():
    w = Writer()
    tile = w.tile()
    w.b.get(box(tile), box(w.x, 4, 3), R)
    w.rejected("shapes (4, 4) and (4, 3) differ along axes (0, 1)")


def test_copy_with_a_repeated_axis():
    w = Writer()
    tile = w.tile()
    w.b.get(box(tile), box(w.x, 4, 4), R, (0, 0))
    w.rejected("axes (0, 0) for 2 axes of the tile")


def test_copy_of_doubles():
    w = Writer()
    tile = w.tile(dtype="f64")
    w.b.get(box(tile), box(w.x, 4, 4), R)
    w.rejected("t holds f64, memory f32")


def test_copy_between_two_ldm_tiles():
    w = Writer()
    tile = w.tile()
    w.b.emit(Copy(Direction.GET, box(tile), box(tile), (0, 1), R))
    w.rejected("copies ldm and ldm")


def test_put_of_a_replicated_tile():
    w = Writer()
    tile = w.tile((4, 4), (Along.ROW, Along.NONE))
    w.b.apply(Zero(), box(tile))
    w.b.put(box(tile), box(w.y, 4, 4), R)
    w.rejected("several CPEs hold each element of t")


def test_parallel_iterations_that_put_to_one_place():
    w = Writer()
    with w.b.loop("i", 2, parallel=True) as i:
        tile = w.tile()
        w.b.apply(Zero(), box(tile))
        w.b.put(box(tile), box(w.y, (i * 3, 4), 4), R)
        w.b.wait(R)
    w.rejected("iterations of i put to the same part of y")


def test_parallel_iterations_may_share_the_name_of_private_scratch():
    w = Writer()
    with w.b.loop("i", 2, parallel=True):
        scratch = w.b.scratch("s", (4, 4))
        tile = w.tile()
        w.b.apply(Zero(), box(tile))
        w.b.put(box(tile), box(scratch), R)
        w.b.wait(R)
    w.check()


def test_intrinsic_on_memory():
    w = Writer()
    w.b.apply(Zero(), box(w.x))
    w.rejected("lies in memory")


@pytest.mark.parametrize(
    ("shapes", "partitions", "text"),
    [
        (((8, 32), (8, 4), (4, 32)), (GRID, GRID[::-1], GRID), "A must be dealt by ['row', 'col']"),
        (((8, 32), (8, 4), (8, 32)), (GRID, GRID, GRID), "block of B (4, 16) does not fit"),
        (
            ((6, 32), (6, 4), (4, 32)),
            (GRID, GRID, GRID),
            "block of C 3 x 16 is no multiple of 4 x 16",
        ),
    ],
)
def test_product_of_tiles_that_do_not_fit(shapes, partitions, text):
    w = Writer()
    c, a, b = (w.tile(s, p) for s, p in zip(shapes, partitions, strict=True))
    for tile in (a, b):
        w.b.apply(Zero(), box(tile))
    wide = (w.tile(s, p, dtype="f64") for s, p in zip(shapes[1:], partitions[1:], strict=True))
    w.b.apply(MeshGemm(accumulate=False), box(c), box(a), box(b), *map(box, wide))
    w.rejected(text)


def test_ldm_capacity_counts_both_slots():
    w = Writer()
    w.tile((32, 32), slots=2)
    w.check()
    w.tile((2, 2))
    w.rejected("2080 B of 2048 B LDM on every CPE", LdmError)


def test_storage_is_free_again_after_its_scope():
    w = Writer()
    for _ in range(2):
        with w.b.scope():
            w.tile((32, 32), slots=2)
    w.check()


def test_read_of_a_tile_that_was_never_written():
    w = Writer()
    w.b.put(box(w.tile()), box(w.y, 4, 4), R)
    w.rejected("reads t[:4, :4], of which [0:+4, 0:+4] was never written", LdmError)


def test_read_of_a_part_that_was_never_written():
    w = Writer()
    tile = w.tile()
    w.b.get(box(tile, 4, 3), box(w.x, 4, 3), R)
    w.b.wait(R)
    w.b.put(box(tile), box(w.y, 4, 4), R)
    w.rejected("of which [0:+4, 3:+1] was never written", LdmError)


def test_padding_makes_a_tile_whole():
    w = Writer()
    tile = w.tile()
    w.b.get(box(tile, 3, 3), box(w.x, 3, 3), R, padded=True)
    w.b.wait(R)
    w.b.put(box(tile), box(w.y, 4, 4), R)
    w.b.wait(R)
    w.check()


def test_padding_alone_does_not_write_the_valid_part():
    w = Writer()
    tile = w.tile()
    w.b.apply(ZeroOutside(), box(tile), box(tile, 3, 3))
    w.b.put(box(tile), box(w.y, 4, 4), R)
    w.rejected("of which [0:+3, 0:+3] was never written", LdmError)


def test_read_before_the_wait():
    w = Writer()
    tile = w.tile()
    w.b.get(box(tile), box(w.x, 4, 4), R)
    w.b.put(box(tile), box(w.y, 4, 4), Reply("s"))
    w.rejected("reads t[:4, :4] before reply r is awaited", LdmError)


def test_write_while_a_put_still_reads():
    w = Writer()
    tile = w.tile()
    w.b.apply(Zero(), box(tile))
    w.b.put(box(tile), box(w.y, 4, 4), R)
    w.b.apply(Zero(), box(tile))
    w.rejected("while reply r still reads it", LdmError)


def test_double_buffer_overwritten_too_early_names_the_iteration():
    w = Writer()
    tile = w.tile(slots=2)
    other = w.tile()
    w.b.apply(Zero(), box(other))
    w.b.get(box(tile), box(w.x, 4, 4), Reply("k"))
    with w.b.loop("k", 4) as k:
        wrong = mod(k, 2)  # must be k + 1
        w.b.get(box(tile, slot=wrong), box(w.x, 4, 4), Reply("k", wrong))
        w.b.wait(Reply("k", mod(k, 2)))
        w.b.apply(Add(), box(other), box(tile, slot=mod(k, 2)))
    w.rejected("(k = 0): writes t{(k) % 2}[:4, :4] while reply k still fills it", LdmError)


def test_wait_for_a_wrong_number_of_copies():
    w = Writer()
    tile = w.tile()
    w.b.get(box(tile), box(w.x, 4, 4), R)
    w.b.wait(R, 2)
    w.rejected("wait r == 2 (no loop): 1 copies were issued")


def test_copy_that_is_never_awaited():
    w = Writer()
    tile = w.tile()
    w.b.get(box(tile), box(w.x, 4, 4), R)
    w.rejected("scope of t ends before reply r", LdmError)


def test_get_from_memory_whose_put_is_under_way():
    w = Writer()
    tile, other = w.tile(), w.tile()
    w.b.apply(Zero(), box(tile))
    w.b.put(box(tile), box(w.y, 4, 4), R)
    w.b.get(box(other), box(w.y, 4, 4), Reply("s"))
    w.rejected("reads y before put reply r", LdmError)


def test_a_fault_in_the_last_iteration_of_a_long_loop_is_found():
    w = Writer()
    tile = w.tile(slots=2)
    w.b.get(box(tile), box(w.x, 4, 4), Reply("k"))
    with w.b.loop("k", 1001) as k:
        w.b.get(box(tile, slot=mod(k + 1, 2)), box(w.x, 4, 4), Reply("k", mod(k + 1, 2)))
        w.b.wait(Reply("k", mod(k, 2)))
    w.b.wait(Reply("k", Affine(0)))  # the last fetch went to slot 1
    w.rejected("wait k == 1 (no loop): 0 copies were issued")


class Without(Rewriter):
    """Drops the statement number `index` of a kind."""

    def __init__(self, kind, index):
        self.kind, self.left = kind, index

    def seq(self, stmt):
        parts = []
        for part in stmt.body:
            if isinstance(part, self.kind):
                self.left -= 1
                if self.left == -1:
                    continue
            parts.append(self.visit(part))
        return Seq(tuple(parts))


def count_kind(stmt, kind):
    if isinstance(stmt, Seq):
        return sum(count_kind(part, kind) for part in stmt.body)
    return count_kind(stmt.body, kind) if isinstance(stmt, For) else int(isinstance(stmt, kind))


@pytest.mark.parametrize("kind", [Wait, Copy])
def test_gemm_program_without_any_one_wait_or_copy_is_rejected(kind):
    op, template = Gemm(9, 17, 40, has_bias=True), GemmTemplate()
    config = next(c for c in template.space(op, TOY) if c["tile_k"] == 8)
    program = template.build(op, config, TOY)
    verify(program, TOY)
    number = count_kind(program.body, kind)
    assert number > 5
    for index in range(number):
        with pytest.raises(ProgramError):
            verify(replace(program, body=Without(kind, index).seq(program.body)), TOY)


def test_loop_variables_and_allocs_survive_a_rewriter_that_changes_nothing():
    w = Writer()
    with w.b.loop("i", 2) as i:
        w.b.apply(Zero(), box(w.tile()))
        assert i == var("i")
    body = w.b.build().body
    assert Rewriter().seq(body) == body
    assert isinstance(body.body[0].body.body[0], Alloc)
