from __future__ import annotations

import pytest

from deerflow.runs.goal import Verdict, read_verdict


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ('{"met": true}', Verdict(True)),
        ('{"met": false, "missing": " the tests "}', Verdict(False, "the tests")),
        ('Here:\n```json\n{"met": "no", "missing": 3}\n```', Verdict(False)),
        ('{"met": "TRUE"}', Verdict(True)),
        ("Yes, it is done.", Verdict(True, "it is done")),
        ("**Not met**: the tests are missing", Verdict(False, "the tests are missing")),
        ("no", Verdict(False)),
        ("Unmet", Verdict(False)),
    ],
)
def test_verdict_is_read_leniently(answer: str, verdict: Verdict) -> None:
    assert read_verdict(answer) == verdict


@pytest.mark.parametrize(
    "answer", ["", "Perhaps.", "{met}", '{"met": 1}', '{"done": true}', "Nothing yet", "Notable"]
)
def test_what_is_no_verdict_is_not_read_as_one(answer: str) -> None:
    assert read_verdict(answer) is None
