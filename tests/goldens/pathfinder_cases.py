"""The parts of Pathfinder's images, drawn by Pillow and OpenCV, which the authors of Pathfinder used."""

import math

import cv2
import numpy as np
import torch
from PIL import Image, ImageDraw

from golden_file import Draw, GoldenFile

CENTRE = 8  # of a paddle's canvas, whose side is 17


def resized(image: np.ndarray, side: int) -> np.ndarray:
    return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.LANCZOS))


def disc(radius: int) -> np.ndarray:
    row, column = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    return (row**2 + column**2 <= radius**2).astype(np.uint8)


def line_end(degrees: int) -> tuple[int, int]:
    angle = degrees * np.pi / 180
    return math.ceil(CENTRE + 4 * np.sin(angle)), math.ceil(CENTRE + 4 * np.cos(angle))


def paddle(end: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The picture and the mask, 9 x 9 each."""
    canvas = Image.new("L", (17, 17))
    ImageDraw.Draw(canvas).line([(CENTRE, CENTRE), end[::-1]], fill=255, width=1)
    line = np.asarray(canvas)
    return resized(line, 9), resized(cv2.dilate(line, disc(2)), 9)


def first_tails(mask: np.ndarray) -> np.ndarray:
    """The possible tails of a first paddle, in an image that is free except for a border of 14."""
    covered = np.ones((32, 32))
    covered[14:18, 14:18] = 0
    covered = cv2.dilate(covered, (mask[:7, :7] == 255).astype(np.uint8))
    return np.flatnonzero(covered <= 0.3) if covered.min() >= 0 else np.zeros(0, np.int64)


def marker(row: int, column: int) -> np.ndarray:
    canvas = np.zeros((64, 64), np.uint8)
    rows, columns = np.ogrid[-2 * row : 64 - 2 * row, -2 * column : 64 - 2 * column]
    canvas[rows**2 + columns**2 <= 9] = 255
    return resized(canvas, 32)


def build() -> GoldenFile:
    goldens = GoldenFile()

    def add(case: str, op: str, **tensors: np.ndarray) -> None:
        goldens.add(case, {"op": op}, {name: torch.from_numpy(np.array(x)) for name, x in tensors.items()})

    for side, smaller in [(17, 9), (64, 32), (20, 7)]:
        image = Draw(f"resize_{side}").integers(256, side, side).numpy().astype(np.uint8)
        add(f"resize_{side}", "lanczos_resize", input=image, output=resized(image, smaller))

    first_of = {line_end(degrees): degrees for degrees in reversed(range(360))}
    degrees = np.array(sorted(first_of.values()))
    lines, masks = zip(*(paddle(line_end(d)) for d in degrees))
    same_as = np.array([first_of[line_end(d)] for d in range(360)])
    add("paddles", "paddle", degrees=degrees, lines=np.array(lines), masks=np.array(masks), same_as=same_as)

    # Whole degrees of the first paddle, each with a tail.
    pairs = [(d, tail) for d in range(360) for tail in first_tails(paddle(line_end(d))[1])]
    add("first_paddles", "first_paddle", degrees_and_tails=np.array(pairs))

    centres = np.array([[16, 20], [5, 1], [0, 0], [31, 31], [29, 6], [2, 30], [13, 0]])
    add("markers", "marker", centres=centres, output=np.array([marker(*centre) for centre in centres]))
    return goldens
