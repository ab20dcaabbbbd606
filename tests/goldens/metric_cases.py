"""Metrics by scikit-learn, rouge-score and NLTK, and the ranking metrics of the MIND data set."""

import numpy as np
import torch
from nltk.stem.porter import PorterStemmer
from rouge_score.rouge_scorer import RougeScorer
from sklearn import metrics

from golden_file import Draw, GoldenFile
from summary_pairs import PAIRS, SEVERAL_REFERENCES

ROUGE_TYPES = ["rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"]


def build() -> GoldenFile:
    goldens = GoldenFile()
    add_classes(goldens)
    add_binary(goldens)
    add_lists(goldens)
    add_rouge(goldens)
    add_stems(goldens)
    return goldens


def add_classes(goldens: GoldenFile) -> None:
    """Accuracy and macro-F, also with classes that no row has, that no row is predicted to have, or both."""
    for case, rows, classes, used, taken in [
        ("classes_2", 30, 2, 2, 2),
        ("classes_10", 200, 10, 10, 10),
        ("classes_absent", 40, 6, 3, 6),
        ("classes_never_taken", 40, 6, 6, 3),
        ("classes_neither", 25, 8, 2, 2),
        ("classes_one", 5, 1, 1, 1),
        ("classes_all_wrong", 7, 3, 1, 3),
    ]:
        draw = Draw(case)
        targets = draw.integers(used, rows)
        logits = draw.normal(rows, classes)
        logits[:, taken:] = -100
        if case == "classes_all_wrong":
            logits[torch.arange(rows), targets] = -50
        else:
            logits[torch.arange(rows), targets] += 1
        logits = logits.float().double()
        predictions = logits.argmax(-1)
        accuracy = metrics.accuracy_score(targets, predictions)
        macro_f1 = metrics.f1_score(targets, predictions, labels=range(classes), average="macro", zero_division=0)
        expected = {"accuracy": scalar(accuracy), "macro_f1": scalar(macro_f1)}
        goldens.add(case, {"op": "macro_f1"}, {"logits": logits, "targets": targets, **expected})


def add_binary(goldens: GoldenFile) -> None:
    """AUC and average precision. With few levels, many scores are equal."""
    for case, count, levels in [
        ("binary_few", 6, 4),
        ("binary_distinct", 50, 0),
        ("binary_ties", 200, 12),
        ("binary_all_equal", 9, 1),
        ("binary_rare", 500, 40),
    ]:
        draw = Draw(case)
        scores = draw.integers(levels, count).double() / 8 if levels else draw.normal(count)
        targets = (draw.normal(count) + scores > (2 if case == "binary_rare" else 0.5)).long()
        targets[0], targets[1] = 1, 0
        expected = {
            "auc": scalar(metrics.roc_auc_score(targets, scores)),
            "average_precision": scalar(metrics.average_precision_score(targets, scores)),
        }
        goldens.add(case, {"op": "binary"}, {"scores": scores, "targets": targets, **expected})


def add_lists(goldens: GoldenFile) -> None:
    """MRR and nDCG of lists of candidates, by the formulas of MIND's evaluation."""
    for case, count, levels, grades in [
        ("list_5", 5, 0, 2),
        ("list_40", 40, 0, 2),
        ("list_ties", 30, 5, 2),
        ("list_all_equal", 12, 1, 2),
        ("list_one", 1, 0, 2),
        ("list_grades", 25, 0, 5),
        ("list_grades_ties", 25, 6, 4),
    ]:
        draw = Draw(case)
        scores = (draw.integers(levels, count).double() / 8 if levels else draw.normal(count)).numpy()
        targets = draw.integers(grades, count).numpy()
        targets[0] = 1
        order = np.argsort(scores, kind="stable")[::-1]
        ranked, ranks = targets[order], np.arange(count) + 1
        expected = {}
        if grades == 2:
            expected["mean_reciprocal_rank"] = scalar(np.sum(ranked / ranks) / np.sum(ranked))
        for k in (1, 3, 5, 10, 100):
            gains = 2.0**targets - 1
            value = dcg(gains[order], k) / dcg(np.sort(gains)[::-1], k)
            if not levels and count > 1:  # scikit-learn needs two candidates, and has another rule for ties
                np.testing.assert_allclose(value, metrics.ndcg_score([gains], [scores], k=k), rtol=1e-12)
            expected[f"ndcg_{k}"] = scalar(value)
        inputs = {"scores": torch.from_numpy(scores), "targets": torch.from_numpy(targets)}
        goldens.add(case, {"op": "list"}, {**inputs, **expected})


def dcg(gains: np.ndarray, k: int) -> float:
    gains = gains[:k]
    return np.sum(gains / np.log2(np.arange(len(gains)) + 2))


def add_rouge(goldens: GoldenFile) -> None:
    """[plain or stemmed, type, precision or recall or F1]"""
    single = [([reference], prediction) for reference, prediction in PAIRS]
    for i, (references, prediction) in enumerate(single + SEVERAL_REFERENCES):
        scores = []
        for use_stemmer in (False, True):
            found = RougeScorer(ROUGE_TYPES, use_stemmer).score_multi(references, prediction)
            scores.append([[*found[name]] for name in ROUGE_TYPES])
        case = f"rouge_{i:02}" if i < len(single) else f"rouge_several_{i - len(single)}"
        parameters = {"op": "rouge", "prediction": prediction, "references": references}
        goldens.add(case, parameters, {"scores": torch.tensor(scores, dtype=torch.float64)})


STEMS = """
    a be cat fly happ hopp fil agre pl relat condition ration val digit conform radic differ vil analog vietnam predic
    oper feudal decis hope callous formal sensit sens triplic form electr good reviv allow infer airlin gyroscop
    adjust irrit replac adopt homolog commun activ angular effect bowdler prob rat ceas
""".split()
SUFFIXES = """
    s es ies sses ed eed ied ing y ly ally fully bly logy ational tional ization ation ator alism iveness fulness
    ousness aliti iviti biliti icate ative alize ical ful ness al ance er able ant ement ment ent sion tion ion ou ism
    ate iti ous ive ize e ll le
""".split()
OTHER_WORDS = """
    sky skies dying lying tying news innings inning outings outing cannings canning howe proceed exceed succeed dies
    died ties tied lied cried cries as is us ox using enjoy say spy by are eve owe geology theology archaeology
    nationally tonally rationally ally rally probably wonderfully controlling rolling falling hissing fizzed yyyy
    syzygy yes eying relationally operationally sensationally bys bying 1990s 2nd covid19 Running THE
""".split()


def add_stems(goldens: GoldenFile) -> None:
    words = [stem + suffix for i, stem in enumerate(STEMS) for suffix in ["", *SUFFIXES][i % 3 :: 3]] + OTHER_WORDS
    stemmer = PorterStemmer()
    parameters = {"op": "porter_stem", "words": words, "stems": [stemmer.stem(word) for word in words]}
    goldens.add("stems", parameters, {"count": torch.tensor(len(words))})


def scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)
