"""Power cuts on SQLite: FULL loses nothing that was acknowledged, and NORMAL at most the last commits."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.power.cuts import PowerLoss, Promise, Synchronous, judge, power_cuts, record
from tests.power.disk import Act, Delete, Sync, Truncate, Write
from tests.power.images import FATES, after, images, sectors

# Longer than the usual timeout, because so many engines take their time on a busy machine.
pytestmark = pytest.mark.timeout(150)
IMAGES = 90


@pytest.mark.parametrize("seed", range(1, 5))
def test_full_loses_nothing(seed: int) -> None:
    """With synchronous=FULL, every commit that returned is there, whatever the disk forgot."""
    figures = power_cuts(seed, IMAGES, synchronous="FULL")
    assert (figures.images, figures.lost_tails) == (IMAGES, 0)
    assert figures.acknowledged > 50


@pytest.mark.parametrize("seed", range(5, 7))
def test_normal_keeps_a_prefix(seed: int) -> None:
    """With synchronous=NORMAL, the last commits may be missing, and the rest is what some commit left."""
    figures = power_cuts(seed, IMAGES, synchronous="NORMAL")
    assert figures.images == IMAGES
    assert figures.lost_tails > 0


def test_creation_may_be_cut_at_any_act(tmp_path: Path) -> None:
    """A store whose creation was cut off opens as if it had never existed, even with a torn first page."""
    recording = record(tmp_path / "recorded", 1, "FULL")
    first = min(commit.at for commit in recording.commits.values())
    for seed in range(6):
        for image in images(recording.diary, range(min(first, 12)), random.Random(seed)):
            assert judge(tmp_path / "image", recording, image, "FULL") == 0


@pytest.mark.parametrize(("synchronous", "promise"), [("NORMAL", "FULL"), ("OFF", "NORMAL")])
def test_weaker_setting_is_caught(synchronous: Synchronous, promise: Promise) -> None:
    """The judge is not blind: it notices a setting that keeps less than it promises."""
    with pytest.raises(PowerLoss) as caught:
        power_cuts(4, IMAGES, synchronous=synchronous, promise=promise)
    shutil.rmtree(str(caught.value).rpartition(" ")[2].rstrip(")"))


def test_sync_is_a_promise() -> None:
    """What was synced is in every image, and every fate changes what was not."""
    diary: list[Act] = [
        Write("a", 0, b"old!" * 512),
        Sync("a"),
        *(Write("a", 512 * n, b"new!" * 128) for n in range(4)),
    ]
    for name, fate in FATES.items():
        pending = fate(random.Random(1), [act for act in diary[2:] if isinstance(act, Write)])
        assert (pending == diary[2:]) is (name == "everything"), name
    contents = {image.files["a"] for image in images(diary, [6] * 200, random.Random(1))}
    assert {b"old!" * 512, b"new!" * 512} < contents
    assert [image.files["a"] for image in images(diary, [2] * 5, random.Random(1))] == [b"old!" * 512] * 5


def test_deletion_may_be_lost() -> None:
    """A deleted file may come back until a directory is synced, but not after that."""
    diary: list[Act] = [Write("a", 0, b"1"), Sync("a"), Delete("a", False), Write("b", 0, b"2"), Sync("b")]
    assert {image.files.get("a") for image in images(diary, [3] * 50, random.Random(1))} == {b"1", None}
    assert {image.files.get("a") for image in images(diary, [5] * 50, random.Random(1))} == {None}


def test_writes_tear_at_sectors() -> None:
    """A write tears at the borders of sectors, and a hole reads as zeros."""
    assert sectors(Write("a", 500, b"x" * 600), 512) == [
        Write("a", 500, b"x" * 12), Write("a", 512, b"x" * 512), Write("a", 1024, b"x" * 76),
    ]  # fmt: skip
    assert after(None, [Write("a", 2, b"x"), Truncate("a", 4)]) == b"\0\0x\0"
    assert after(b"abcd", [Truncate("a", 1)]) == b"a"
