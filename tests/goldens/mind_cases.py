#!/usr/bin/env python3
"""Writes tests/goldens/mind: files in MIND's format, scores of their candidates, and the results of MIND's evaluation.

    pip install numpy scikit-learn
    python3 tests/goldens/mind_cases.py
"""

import json
import pathlib

import numpy as np
from sklearn.metrics import roc_auc_score

FOLDER = pathlib.Path(__file__).parent / "mind"
WORDS = "court wins cup as rain hits coast new law on trade film star, 34, isn't back what's next? team's coach".split()
rng = np.random.default_rng(20211)


def news(first: int, count: int) -> dict[str, str]:
    """Lines of news.tsv by their ids. If dev repeats an id, it has another title there."""
    lines = {}
    for i in range(first, first + count):
        title = " ".join(rng.choice(WORDS, rng.integers(0 if i == 7 else 3, 12)))
        title = "" if i == 7 else title.capitalize()
        columns = [f"N{i}", "news", "newsworld", title, 'An "abstract".', f"https://x.org/{i}", "[]", '[{"Label": "X"}]']
        lines[f"N{i}"] = "\t".join(columns)
    return lines


def impressions(first: int, count: int, known: list[str]) -> list[tuple[int, list[str], list[str], list[int]]]:
    """Id, history, candidates and clicks of each impression."""
    made = []
    for i in range(first, first + count):
        history = list(rng.choice(known + ["N9999"], 60 if i % 10 == 3 else rng.integers(0, 12)))
        if i % 10 == 4:
            history = []
        candidates = list(rng.choice(known, rng.integers(2, 30), replace=False))
        if i % 7 == 2:
            candidates[rng.integers(len(candidates))] = "N8888"
        clicks = (rng.random(len(candidates)) < 0.2).astype(int)
        clicks[rng.integers(len(candidates))] = 1
        if i % 9 == 5:
            clicks[:] = i % 2  # only clicked, or only unclicked
        made.append((i, history, candidates, list(map(int, clicks))))
    return made


def write(part: str, lines: dict[str, str], users: list) -> None:
    (FOLDER / part).mkdir(parents=True, exist_ok=True)
    (FOLDER / part / "news.tsv").write_text("\n".join(lines.values()) + "\n")
    rows = []
    for i, history, candidates, clicks in users:
        shown = " ".join(f"{news_id}-{click}" for news_id, click in zip(candidates, clicks))
        rows.append(f"{i}\tU{i % 5}\t11/15/2019 8:55:22 AM\t{' '.join(history)}\t{shown}\n")
    (FOLDER / part / "behaviors.tsv").write_text("".join(rows))


def ndcg(ranked: np.ndarray, k: int) -> float:
    def dcg(clicks: np.ndarray) -> float:
        return np.sum((2.0 ** clicks[:k] - 1) / np.log2(np.arange(len(clicks[:k])) + 2))

    return dcg(ranked) / dcg(np.sort(ranked)[::-1])


def main() -> None:
    train_news, dev_news = news(0, 60), news(50, 30)
    known = list(train_news) + [i for i in dev_news if i not in train_news]
    write("train", train_news, impressions(1, 40, list(train_news)))
    users = impressions(1, 60, known)
    write("dev", dev_news, users)
    measures, scores_of, predictions = [], {}, []
    for i, _, candidates, clicks in users:
        scores = np.round(rng.normal(size=len(candidates)), 1 if i % 3 == 0 else 6)  # one digit gives equal scores
        scores_of[i] = list(scores)
        kept = np.array([c in known for c in candidates])
        order = np.argsort(np.where(kept, scores, -np.inf), kind="stable")[::-1]
        ranks = np.empty(len(order), dtype=int)
        ranks[order] = np.arange(len(order)) + 1
        predictions.append(f"{i} [{','.join(map(str, ranks))}]\n")
        y, s = np.array(clicks)[kept], scores[kept]
        if len(set(y)) < 2:
            continue
        ranked = y[np.argsort(s, kind="stable")[::-1]]
        reciprocal = np.sum(ranked / (np.arange(len(ranked)) + 1)) / np.sum(ranked)
        measures.append([roc_auc_score(y, s), reciprocal, ndcg(ranked, 5), ndcg(ranked, 10)])
    names = ["AUC", "MRR", "nDCG@5", "nDCG@10"]
    expected = {"scores": scores_of, "measures": dict(zip(names, np.mean(measures, 0))), "counted": len(measures)}
    (FOLDER / "expected.json").write_text(json.dumps(expected) + "\n")
    (FOLDER / "predictions.txt").write_text("".join(predictions))


if __name__ == "__main__":
    main()
