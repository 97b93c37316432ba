"""Left and right in descriptions of two people: who comes first, whose each word is, and what is no side at all."""

import numpy as np
import pytest

from fp2.methods.attention.scorers import FirstMention, WordShare, read_sides

# text, first, words of left, words of right
READ = [
    ("The person on the left wears a red top. The person on the right is there too.", "left", 9, 8),
    ("The person on the right wears a blue top. The person on the left wears a green top.", "right", 9, 9),
    ("On the left, there is a man in a suit, and on the right a woman in a dress.", "left", 10, 9),
    ("Left: a young man with a beard.\nRight: a woman with glasses.", "left", 7, 5),
    ("**Left person:** red shirt\n\n**Right person:** blue shirt, short hair", "left", 4, 6),
    ("1. Right – a man in his thirties\n2. Left – a woman", "right", 3, 6),
    ("The woman on the right has long hair, while the man on the left is bald.", "right", 8, 8),
    ("The image shows a man (left) and a woman (right).", "left", 3, 4),
    ("The man on the left is taller than the woman on the right.", "left", 8, 5),
    ("The leftmost person is an elderly man. The other person is a young girl.", "left", 7, 7),
    ("The right person wears glasses; the left one does not.", "right", 5, 5),
    ("The lady on the far right wears pearls and the gentleman on the far left wears a tie.", "right", 10, 8),
    ("The man on the left-hand side smiles. He is young. The woman on the right-hand side is serious.", "left", 10, 8),
    ("To the left is a man. To the right is a woman. Both seem happy.", "left", 6, 6),
    ("There are two people. The left individual looks older. The right individual looks younger.", "left", 5, 5),
    ("The man, standing on the left, and the woman, standing on the right, smile.", "left", 6, 8),
    ("THE PERSON ON THE RIGHT IS TALL. THE PERSON ON THE LEFT IS SHORT.", "right", 7, 7),
]
# how the other person can be passed the word to, and what stands in the way
TRICKY = [
    ("The man on the left raises his right hand. He is old.", "left", 12, 0),
    ("The man on the left is tall. The woman to his right holds a bag in her left hand.", "left", 7, 12),
    ("The person on the right has a scar on the left side of her face.", "right", 0, 15),
    ("Right now the woman on the left looks to the right.", "left", 11, 0),
    ("The woman on the left is turned to the right. She smiles.", "left", 12, 0),
    ("A tree is on the left. The man on the right is tall.", "right", 0, 7),
    ("The person on the left. They wear the other shoe.", "left", 5, 0),
]
SILENT = [
    "The two people are friends. Both wear hats.",
    "He left the room. He was right.",
    "I'm sorry, but I can't describe people.",
    "They are looking to the right.",
    "The man raises his left hand and the woman her right arm.",
    "That's right, all right.",
    "YesNoNoNo",
    "",
]


@pytest.mark.parametrize(("text", "first", "left", "right"), READ + TRICKY)
def test_what_a_description_gives_each(text, first, left, right):
    found = read_sides(text)
    assert (found.first, found.left_words, found.right_words) == (first, left, right)


@pytest.mark.parametrize("text", SILENT)
def test_texts_that_name_no_side(text):
    found = read_sides(text)
    assert (found.first, found.left_words, found.right_words) == (None, 0, 0)


@pytest.mark.parametrize(("text", "first", "left", "right"), READ + TRICKY)
def test_sides_exchanged_in_the_words_are_sides_exchanged_in_the_numbers(text, first, left, right):
    if "Right now" in text or "scar" in text:
        return  # there the other word is no side
    found = read_sides(_exchange(text))
    assert (found.first, found.left_words, found.right_words) == (
        {"left": "right", "right": "left"}[first],
        right,
        left,
    )


def _exchange(text: str) -> str:
    for low, high in (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT")):
        text = text.replace(low, "\0").replace(high, low).replace("\0", high)
    return text


def test_both_scorers_speak_for_the_person_on_the_left():
    texts = [READ[0][0], READ[1][0], TRICKY[0][0], SILENT[0], "  "]
    first = FirstMention("first_mention", True, (0.0, 1.0), 0.05)
    share = WordShare("word_share", True, (0.0, 1.0), 0.025)
    np.testing.assert_array_equal(first.score(texts, [""] * 5).values, [1, 0, 1, np.nan, np.nan])
    scored = share.score(texts, [""] * 5)
    np.testing.assert_allclose(scored.values, [9 / 17, 0.5, np.nan, np.nan, np.nan])
    assert scored.details["left_words"].tolist() == [9, 9, 12, 0, 0]
    assert first.n_people == 2
    assert share.n_people == 2
