"""Proofs about the paths that routes match."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.convertors import CONVERTOR_TYPES, Convertor
from starlette.routing import compile_path

from deerflow.gateway.path_patterns import PathPattern

COVERED = [
    ("/threads", "/threads"),
    ("/threads/{id}", "/threads/{name}"),
    ("/threads/{id}", "/threads/search"),
    ("/threads/{id}", "/threads/{id:int}"),
    ("/threads/{id}", "/threads/{id:uuid}"),
    ("/threads/{id}", "/threads/{id:float}"),
    ("/threads/{id:float}", "/threads/{id:int}"),
    ("/threads/{id}", "/threads/a{id}"),
    ("/threads/{id}", "/threads/{a}-{b}"),
    ("/threads/{id}", "/threads/{a}{b}"),
    ("/{rest:path}", "/anything/{at}/all"),
    ("/{rest:path}", "/{rest:path}"),
    ("/files/{rest:path}", "/files/{rest:path}.txt"),
    ("/files/{a:path}/x", "/files/{a:path}/{b}/x"),
    ("/{a}/{b}", "/{a}/search"),
    ("/files/{rest:path}", "/files/"),
]

NOT_COVERED = [
    ("/threads", "/threads/"),
    ("/threads", "/Threads"),
    ("/threads/search", "/threads/{id}"),
    ("/threads/{id:int}", "/threads/{id}"),
    ("/threads/{id:int}", "/threads/{id:float}"),
    ("/threads/{id:uuid}", "/threads/{id:int}"),
    ("/threads/{id:int}", "/threads/{id:uuid}"),
    ("/threads/{id}", "/threads/{rest:path}"),
    ("/threads/{id}", "/threads/{id}/runs"),
    ("/threads/{id}", "/threads/"),
    ("/threads/{id}/state", "/threads/{id}/{what}"),
    ("/a/{x}", "/{x}/a"),
    ("/threads/a{id}", "/threads/{id}"),
    ("/files/{rest:path}.txt", "/files/{rest:path}"),
    ("/{a}/{b}", "/{rest:path}"),
]


@pytest.mark.parametrize(("earlier", "later"), COVERED)
def test_pattern_covers_what_it_matches_in_every_case(earlier: str, later: str) -> None:
    assert PathPattern(earlier).covers(PathPattern(later))


@pytest.mark.parametrize(("earlier", "later"), NOT_COVERED)
def test_pattern_does_not_cover_where_one_path_is_left(earlier: str, later: str) -> None:
    assert not PathPattern(earlier).covers(PathPattern(later))


@pytest.mark.parametrize(
    ("path", "namespace", "reached"),
    [
        ("/ok", "/ok", True),
        ("/ok/more", "/ok", True),
        ("/okay", "/ok", False),
        ("/acme/ok", "/ok", False),
        ("/{name}", "/ok", True),
        ("/{name}", "/openapi.json", True),
        ("/{number:int}", "/ok", False),
        ("/{number:float}", "/ok", False),
        ("/{id:uuid}", "/ok", False),
        ("/o{rest}", "/ok", True),
        ("/x{rest}", "/ok", False),
        ("/{a}/login", "/auth", True),
        ("/{a}/{b}", "/health", True),
        ("/auth{x}", "/auth", False),
        ("/auth{x:path}", "/auth", True),
        ("/{a}-{b}", "/auth", False),
        ("/{rest:path}", "/auth", True),
        ("/acme/{rest:path}", "/auth", False),
    ],
)
def test_namespace_is_reached_also_through_parameters(path: str, namespace: str, reached: bool) -> None:
    assert PathPattern(path).can_reach(namespace) is reached


class _Colour(Convertor[str]):
    regex = "red|blue"


def test_unknown_converters_prove_nothing_and_may_reach_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONVERTOR_TYPES, "colour", _Colour())
    colour = PathPattern("/paint/{c:colour}")
    assert not colour.covers(PathPattern("/paint/red"))
    assert not PathPattern("/paint/{c}").covers(colour)
    assert PathPattern("/{rest:path}").covers(colour)
    assert colour.covers(PathPattern("/paint/{other:colour}"))
    assert PathPattern("/{c:colour}").can_reach("/ok")
    assert not colour.can_reach("/ok")


_PIECES = st.sampled_from(["a", "b", "1", "-", ".", "/", "{}", "{:int}", "{:float}", "{:path}"])
_PATHS = st.lists(_PIECES, max_size=5).map(lambda pieces: "/" + _numbered(pieces))


def _numbered(pieces: list[str]) -> str:
    return "".join(piece.replace("{", f"{{p{index}") for index, piece in enumerate(pieces))


@given(
    earlier=_PATHS, later=_PATHS, tried=st.lists(st.text("ab1-./x2", max_size=6), min_size=20, max_size=20)
)
def test_proofs_agree_with_the_regular_expressions(earlier: str, later: str, tried: list[str]) -> None:
    if not PathPattern(earlier).covers(PathPattern(later)):
        return
    theirs, mine = compile_path(later)[0], compile_path(earlier)[0]
    for path in ("/" + rest for rest in tried):
        assert not re.match(theirs, path) or re.match(mine, path)
