"""What a checkpoint's files say without Spark, and what is said of files that cannot be read."""

import zlib

import pytest

from medallion_assets.delta.errors import DamagedCheckpoint
from medallion_assets.delta.progress import committed_position, forget, query_id, refuse_damaged

OFFSET = 'v1\n{"batchWatermarkMs":0}\n{"sourceVersion":1,"reservoirVersion":7,"index":-1}\n'


@pytest.fixture
def checkpoint(tmp_path):
    for folder in ("offsets", "commits"):
        (tmp_path / "checkpoint" / folder).mkdir(parents=True)
    (tmp_path / "checkpoint/offsets/0").write_text(OFFSET)
    (tmp_path / "checkpoint/commits/0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (tmp_path / "checkpoint/metadata").write_text('{"id":"q"}')
    return tmp_path / "checkpoint"


def test_a_sound_checkpoint_says_where_it_stands(checkpoint):
    refuse_damaged(checkpoint)
    assert (committed_position(checkpoint), query_id(checkpoint)) == (6, "q")


@pytest.mark.parametrize("file", ["offsets/0", "commits/0"])
@pytest.mark.parametrize("content", ["", "v1\n{", "v1\n{}", "x", OFFSET[:30]])
def test_a_file_that_is_empty_or_cut_off_is_named(checkpoint, file, content):
    (checkpoint / file).write_text(content)
    with pytest.raises(DamagedCheckpoint, match=file):
        refuse_damaged(checkpoint)


@pytest.mark.parametrize("file", ["metadata", "offsets/0", "commits/0"])
def test_a_file_with_a_bit_turned_is_named_where_hadoop_left_a_checksum(checkpoint, file):
    whole = (checkpoint / file).read_bytes()
    sums = b"".join(zlib.crc32(whole[at : at + 512]).to_bytes(4, "big") for at in range(0, len(whole), 512))
    (checkpoint / file).with_name(f".{(checkpoint / file).name}.crc").write_bytes(b"crc\0\0\0\2\0" + sums)
    refuse_damaged(checkpoint)
    (checkpoint / file).write_bytes(whole.replace(b'":', b'" :', 1)[:-1] + whole[-1:])
    with pytest.raises(DamagedCheckpoint, match=file):
        refuse_damaged(checkpoint)


def test_metadata_that_cannot_be_read_is_named(checkpoint):
    (checkpoint / "metadata").write_text("{")
    with pytest.raises(DamagedCheckpoint, match="metadata"):
        query_id(checkpoint)


def test_a_checkpoint_that_is_not_there_is_no_damage_and_one_that_is_forgotten_is_gone(checkpoint, tmp_path):
    refuse_damaged(tmp_path / "none")
    forget(checkpoint)
    assert list(tmp_path.iterdir()) == []
