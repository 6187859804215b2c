"""Members of JSON objects are counted fast exactly where a look at each line counts the same."""

import json
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from medallion_assets.sources.formats import json_counts
from medallion_assets.sources.formats.json_counts import json_values, members, repeated_keys
from medallion_assets_tests.examples import examples

KEYS = st.sampled_from(["a", "b", "a b", "", "é", 'q":', "\\", "null", "\ud800", "ab"])
TEXTS = st.sampled_from(['x":y', "{", "}", '"', "null", "\\", " :", "é", "\ud800", "a b", '{"a":1}'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=3,
)
MEMBERS = st.lists(st.tuples(KEYS, VALUES), max_size=3)
ALIKE = st.lists(KEYS, max_size=3).flatmap(lambda keys: st.lists(st.tuples(*(VALUES for _ in keys))
        .map(lambda row: list(zip(keys, row, strict=True))), min_size=1, max_size=4))  # fmt: skip
ODD = st.sampled_from([b"", b"[1]", b"null", b'{"a":1', b'{"a":1}{"a":2}', b'{"a" :1,"a":2}', b'{"a":"\xff"}',
                       b'{"\xff":1}', b'{"a":01}', b'{"a":NaN}', b'{"a":"\t"}', b'{"\\u0061":1,"a":2}',
                       b'{"a": {"a":1}, "a":2}', b'{"a":\r1}', b'\xef\xbb\xbf{"a":1}'])  # fmt: skip


def line(pairs, style, ascii_only):
    comma, colon = style
    one = [
        json.dumps(k, ensure_ascii=ascii_only) + colon + json.dumps(v, ensure_ascii=ascii_only)
        for k, v in pairs
    ]
    return ("{" + comma.join(one) + "}").encode("utf-8", "surrogatepass")


STYLES = st.sampled_from([(",", ":"), (", ", ": "), (",", " : "), (" ,\t", ":\t")])
OBJECTS = st.builds(line, MEMBERS, STYLES, st.booleans())
FILES = st.lists(OBJECTS | ODD, max_size=5) | st.builds(
    lambda rows, style, ascii_only: [line(row, style, ascii_only) for row in rows],
    ALIKE, STYLES, st.booleans(),
)  # fmt: skip


@given(FILES, st.sampled_from([b"\n", b"\r\n"]), st.booleans(), st.integers(1, 40), st.integers(1, 40))
@example([b'{"p":{"a":2},"a":1}', b'{"p":1,"a":2,"a":1}'], b"\n", True, 99, 99)
@example([b'{"p":{"a":2},"a":1}', b'{"p":"{\\"a\\":","a":1,"a":1}'], b"\n", True, 99, 99)
@example([b'{"p":{"a":2},"a":1}', b'{"p":[],"a" :3,"a":1}'], b"\n", True, 99, 99)
@examples(150)
def test_members_are_counted_as_line_by_line(lines, end, ends_whole, block, piece):
    text = end.join(lines) + end * ends_whole
    wanted, repeated = Counter(), set()
    for one in text.splitlines():
        wanted.update(members(one))
        repeated |= repeated_keys(key for key, _ in json_counts.keys_of(one))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_counts, "BLOCK", block)
        found = json_values([text[at : at + piece] for at in range(0, len(text), piece)])
    assert ({k: n for k, n in found[0].items() if n}, found[1]) == (dict(wanted), repeated)


def test_objects_of_the_same_keys_are_counted_without_decoding_a_value(monkeypatch):
    monkeypatch.setattr(json_counts, "_count_columns", None)
    monkeypatch.setattr(json_counts, "_count_lines", None)
    rows = [{"id": n, "at": None if n % 3 else "x", "of": {"id": "{", "at": [{"id": n}]}} for n in range(9)]
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    assert json_values([text]) == (Counter(id=9, at=3, of=9), set())
