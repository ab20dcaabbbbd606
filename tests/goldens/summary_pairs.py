"""Texts for the goldens of ROUGE: fifty references and predictions, and some predictions with several references."""

import random


def drawn(seed: int, words: int, longest: int, lines: int) -> tuple[str, str]:
    """Two texts of a few different words, which have many common subsequences of the same length."""
    rng = random.Random(seed)

    def text() -> str:
        return "\n".join(
            " ".join(f"w{rng.randrange(words)}" for _ in range(rng.randrange(longest + 1))) for _ in range(lines)
        )

    return text(), text()


PAIRS = [
    # One sentence.
    ("the cat was found under the bed", "the cat was under the bed"),
    ("The quick brown fox jumps over the lazy dog.", "A fast brown fox leaped over lazy dogs!"),
    ("police killed the gunman", "police kill the gunman"),
    ("police killed the gunman", "the gunman kill police"),
    ("police killed the gunman", "the gunman police killed"),
    ("exactly the same words", "exactly the same words"),
    ("nothing is shared", "two other texts"),
    ("one", "one"),
    ("one two", "two one"),
    ("a b c d e f g", "g f e d c b a"),
    ("a longer reference that goes on and on for a while", "goes on"),
    ("short", "a prediction that is very much longer than what it is compared with, and short"),
    # Words that occur several times.
    ("the the the the", "the cat the"),
    ("the cat the", "the the the the"),
    ("to be or not to be", "to be to be to be"),
    ("a a b b a a", "a b a b a b"),
    ("buffalo buffalo buffalo", "Buffalo buffalo Buffalo buffalo buffalo buffalo Buffalo buffalo"),
    # Nothing, or nothing that is a token.
    ("", ""),
    ("a", ""),
    ("", "a"),
    ("...", "?!"),
    ("\n\n\n", "\n"),
    ("words", "— … —"),
    # Numbers, marks, capitals, and characters beyond ASCII.
    ("It's 2024-11-05 and GPT-4's 3.5% rise", "its 2024 11 05 and gpt 4 s 3 5 rise"),
    ("Prices rose 3.5% to $1,200.50", "prices rose 35 to 120050"),
    ("Naïve café déjà vu", "naive cafe deja vu"),
    ("Straße, ÄRGER und Öl", "strasse ärger und öl"),
    ("300 \u212aelvin in \u0130stanbul", "300 kelvin in istanbul"),
    ("猫が好き cat 犬", "cat 猫"),
    ("emoji 🎉 split🎉words", "emoji split words"),
    ("tab\tand\r\nline\u2028ends\u00a0here", "tab and line ends here"),
    ("UPPER lower MiXeD", "upper LOWER mixed"),
    # Words with the same stem.
    ("running runner runs easily generously happiness", "run runners running easy generous happy"),
    ("dying skies and news of innings", "die sky and new of inning"),
    ("The nations nationally rationalized relations", "a nation's rational relational nationality"),
    ("was has its bus gas", "wa ha it bu ga"),
    # Several sentences, one a line.
    ("w1 w2 w3 w4 w5", "w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5"),
    ("First sentence here.\nSecond one follows.", "Second one follows.\nA first sentence is here."),
    ("alpha beta gamma\ndelta epsilon zeta\neta theta", "beta alpha gamma\nzeta delta\ntheta eta iota"),
    ("one\ntwo\nthree", "three two one"),
    ("same line\nsame line\nsame line", "same line"),
    ("\nfirst after an empty line\n\nlast before one\n", "first\n\n\nlast one"),
    (
        "The council approved the new bridge on Tuesday.\nWork will begin in the spring and cost 40 million.\n"
        "Residents had asked for it since the flood of 1998.",
        "A new bridge was approved by the council.\nIt will cost 40 million, and works begin next spring.",
    ),
    (
        "Researchers trained models with linear attention.\nThey were faster on long texts, and nearly as accurate.",
        "Linear attention trains faster.\nModels are nearly as accurate on long texts.\nThey read faster, too.",
    ),
    # Random words.
    drawn(1, words=3, longest=8, lines=4),
    drawn(2, words=4, longest=12, lines=3),
    drawn(3, words=2, longest=20, lines=2),
    drawn(4, words=10, longest=30, lines=5),
    drawn(5, words=5, longest=40, lines=1),
    drawn(6, words=30, longest=60, lines=6),
]
assert len(PAIRS) == 50

SEVERAL_REFERENCES = [
    (["the cat sat on the mat", "a cat was sitting there", "dogs"], "a cat sat there"),
    (["a", "a b x y z"], "a b c"),  # the same F1 with different precisions
    (["a b x y z", "a"], "a b c"),
    (["x", "a b c d", "a b"], "a b c"),
    (["Rain fell.\nThe match was called off.", "The match was off.\nIt rained."], "It rained.\nThe match is off."),
    (["", "words"], "other words"),
]
