"""The figures of a GRAS run."""

from fp2.methods.gras.figures import mark_of


def test_thirty_templates_have_distinct_marks() -> None:
    assert len({mark_of(template) for template in range(30)}) == 30
