"""Losses, with the gradients of all their floating-point inputs."""

from functools import partial

import torch
import torch.nn.functional as F

from golden_file import Draw, GoldenFile


def build() -> GoldenFile:
    goldens = GoldenFile()
    add_cross_entropy(goldens)
    add_mse(goldens)
    add_binary_cross_entropy(goldens)
    add_nll(goldens)
    add_of_differences(goldens)
    add_kl_div(goldens)
    add_gaussian_nll(goldens)
    add_of_pairs(goldens)
    add_cosine_similarity(goldens)
    return goldens


def add_cross_entropy(goldens: GoldenFile) -> None:
    rows, classes, ignored = 8, 5, -100
    for suffix, some_ignored, smoothing in [
        ("", False, 0.0),
        ("_ignore_index", True, 0.0),
        ("_label_smoothing", False, 0.1),
        ("_ignore_index_label_smoothing", True, 0.1),
    ]:
        for reduction in ("mean", "sum", "none"):
            case = f"cross_entropy{suffix}_{reduction}"
            draw = Draw(case)
            logits, target = draw.normal(rows, classes, scale=3.0), draw.integers(classes, rows)
            if some_ignored:
                target[[1, 4, 6]] = ignored
            parameters = {"op": "cross_entropy", "reduction_mode": reduction, "label_smoothing": smoothing}
            parameters |= {"ignore_index": ignored, "reduction": rows + classes}
            loss = partial(F.cross_entropy, reduction=reduction, label_smoothing=smoothing, ignore_index=ignored)
            goldens.add_with_gradients(case, parameters, loss, {"input": logits}, {"target": target})


def add_mse(goldens: GoldenFile) -> None:
    for reduction in ("mean", "sum", "none"):
        case = f"mse_{reduction}"
        draw = Draw(case)
        inputs = {"input": draw.normal(4, 6), "target": draw.normal(4, 6)}
        parameters = {"op": "mse_loss", "reduction_mode": reduction, "reduction": 24}
        goldens.add_with_gradients(case, parameters, partial(F.mse_loss, reduction=reduction), inputs)


def add_binary_cross_entropy(goldens: GoldenFile) -> None:
    for suffix, weighted in [("", False), ("_pos_weight", True)]:
        for reduction in ("mean", "sum", "none"):
            case = f"binary_cross_entropy{suffix}_{reduction}"
            draw = Draw(case)
            logits = draw.normal(6, 4, scale=3.0)
            logits[0] = torch.tensor([60.0, -60.0, 60.0, -60.0])  # exp() alone would lose these
            constants = {"target": draw.integers(2, 6, 4).double()}
            if weighted:
                constants["pos_weight"] = torch.tensor([0.5, 1.0, 2.5, 4.0], dtype=torch.float64)

            def loss(input, target, pos_weight=None):
                return F.binary_cross_entropy_with_logits(
                    input, target, pos_weight=pos_weight, reduction=reduction
                )

            parameters = {"op": "binary_cross_entropy_with_logits", "reduction_mode": reduction}
            goldens.add_with_gradients(case, {**parameters, "reduction": 24}, loss, {"input": logits}, constants)


def add_nll(goldens: GoldenFile) -> None:
    rows, classes = 8, 5
    for suffix, ignored, weighted in [
        ("", -100, False),
        ("_ignore_index", -100, False),
        ("_weight", -100, True),
        ("_weight_ignored_class", 2, True),
    ]:
        for reduction in ("mean", "sum", "none"):
            case = f"nll{suffix}_{reduction}"
            draw = Draw(case)
            log_probs, target = draw.normal(rows, classes), draw.integers(classes, rows)
            if suffix == "_ignore_index":
                target[[1, 4, 6]] = ignored
            constants = {"target": target}
            if weighted:
                constants["weight"] = torch.tensor([0.5, 1.0, 2.5, 4.0, 0.0], dtype=torch.float64)

            def loss(input, target, weight=None):
                return F.nll_loss(input, target, weight, ignore_index=ignored, reduction=reduction)

            parameters = {"op": "nll_loss", "reduction_mode": reduction, "ignore_index": ignored, "reduction": rows}
            goldens.add_with_gradients(case, parameters, loss, {"input": log_probs}, constants)


def add_of_differences(goldens: GoldenFile) -> None:
    for name, function, options in [
        ("l1", F.l1_loss, {}),
        ("huber", F.huber_loss, {}),
        ("huber_delta", F.huber_loss, {"delta": 0.4}),
        ("smooth_l1", F.smooth_l1_loss, {}),
        ("smooth_l1_beta", F.smooth_l1_loss, {"beta": 0.4}),
        ("smooth_l1_beta_0", F.smooth_l1_loss, {"beta": 0.0}),
    ]:
        for reduction in ("mean", "sum", "none"):
            case = f"{name}_{reduction}"
            draw = Draw(case)
            inputs = {"input": draw.normal(4, 6), "target": draw.normal(4, 6)}
            parameters = {"op": function.__name__, "reduction_mode": reduction, "reduction": 24, **options}
            goldens.add_with_gradients(case, parameters, partial(function, reduction=reduction, **options), inputs)


def add_kl_div(goldens: GoldenFile) -> None:
    for suffix, log_target in [("", False), ("_log_target", True)]:
        for reduction in ("mean", "sum", "none", "batchmean"):
            case = f"kl_div{suffix}_{reduction}"
            draw = Draw(case)
            inputs = {"input": draw.normal(4, 6), "target": draw.normal(4, 6, scale=0.5)}
            if not log_target:
                inputs["target"] = inputs["target"].abs()
            parameters = {"op": "kl_div", "reduction_mode": reduction, "log_target": log_target, "reduction": 24}
            loss = partial(F.kl_div, reduction=reduction, log_target=log_target)
            goldens.add_with_gradients(case, parameters, loss, inputs)
    # PyTorch's gradient to a target of 0 is NaN.
    target = torch.eye(4, 6, dtype=torch.float64)
    parameters = {"op": "kl_div", "reduction_mode": "batchmean", "log_target": False, "reduction": 24}
    loss = partial(F.kl_div, reduction="batchmean")
    inputs = {"input": Draw("kl_div_zeros").normal(4, 6)}
    goldens.add_with_gradients("kl_div_zeros", parameters, loss, inputs, {"target": target})


def add_gaussian_nll(goldens: GoldenFile) -> None:
    rows, columns = 4, 6
    for suffix, shape, full, eps in [
        ("", (rows, columns), False, 1e-6),
        ("_full", (rows, columns), True, 1e-6),
        ("_eps", (rows, columns), False, 0.5),  # above some variances
        ("_of_rows", (rows,), False, 1e-6),
        ("_of_columns", (1, columns), True, 1e-6),
    ]:
        for reduction in ("mean", "sum", "none"):
            case = f"gaussian_nll{suffix}_{reduction}"
            draw = Draw(case)
            inputs = {"input": draw.normal(rows, columns), "target": draw.normal(rows, columns)}
            inputs["var"] = draw.normal(*shape).abs() + 0.125
            parameters = {"op": "gaussian_nll_loss", "reduction_mode": reduction, "full": full, "eps": eps}
            loss = partial(F.gaussian_nll_loss, full=full, eps=eps, reduction=reduction)
            goldens.add_with_gradients(case, {**parameters, "reduction": rows * columns}, loss, inputs)


def add_of_pairs(goldens: GoldenFile) -> None:
    signs = torch.tensor([1, -1, 1, -1, -1, 1, -1, -1])
    for suffix, margin in [("", None), ("_margin", 0.25)]:
        for reduction in ("mean", "sum", "none"):
            options = {} if margin is None else {"margin": margin}
            parameters = {"reduction_mode": reduction, "reduction": 24, **options}

            case = f"hinge_embedding{suffix}_{reduction}"
            inputs = {"input": Draw(case).normal(8, 3)}
            constants = {"target": signs[:, None].expand(8, 3).contiguous()}
            loss = partial(F.hinge_embedding_loss, reduction=reduction, **options)
            goldens.add_with_gradients(case, {"op": "hinge_embedding_loss", **parameters}, loss, inputs, constants)

            case = f"cosine_embedding{suffix}_{reduction}"
            draw = Draw(case)
            inputs = {"x1": draw.normal(8, 3), "x2": draw.normal(8, 3)}
            loss = partial(F.cosine_embedding_loss, reduction=reduction, **options)
            op = {"op": "cosine_embedding_loss"}
            goldens.add_with_gradients(case, {**op, **parameters}, loss, inputs, {"target": signs})


def add_cosine_similarity(goldens: GoldenFile) -> None:
    for case, dim, shapes in [
        ("cosine_similarity", 1, [(4, 6), (4, 6)]),
        ("cosine_similarity_last", -1, [(2, 3, 5), (2, 3, 5)]),
        ("cosine_similarity_broadcast", 1, [(2, 6, 3), (6, 1)]),
    ]:
        draw = Draw(case)
        inputs = {"x1": draw.normal(*shapes[0]), "x2": draw.normal(*shapes[1])}
        if case == "cosine_similarity":
            inputs["x1"][2] = 0
        parameters = {"op": "cosine_similarity", "dim": dim, "reduction": 24}
        goldens.add_with_gradients(case, parameters, partial(F.cosine_similarity, dim=dim), inputs)
